from daemon_fixtures import client, daemon  # noqa: F401: for every test of this folder
