"""Makes this clone's package importable: PyTorch's environment is shared by all clones, so it cannot know them."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
for folder in ("bazel-bin/client/python", "client/python"):
    if str(ROOT / folder) not in sys.path:
        sys.path.insert(0, str(ROOT / folder))
