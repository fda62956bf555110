import sys
from pathlib import Path

from daemon_fixtures import client, daemon  # noqa: F401: for every test of this folder

sys.path.insert(0, str(Path(__file__).parent))  # pytest's importlib mode leaves that to us
