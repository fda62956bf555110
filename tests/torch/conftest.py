"""One daemon for the whole folder. The rows of a table are computed together, when its first is asked for."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # pytest's importlib mode leaves that to us

import clone  # noqa: E402, F401  before tensord
import pytest  # noqa: E402
import table  # noqa: E402
from judge import Judge  # noqa: E402
from tensord.testing import Daemon  # noqa: E402


@pytest.fixture(scope="session")
def judge(tmp_path_factory):
    with Daemon(tmp_path_factory.mktemp("daemon")) as daemon:
        yield Judge(daemon)


@pytest.fixture(scope="module")
def judged(judge, request):
    """Makes sure that a row has been judged."""
    done = set()

    def judge_row(row):
        if row not in done:
            asked = [
                item.callspec.params["row"]
                for item in request.session.items
                if item.module is request.module and "row" in getattr(item, "callspec", NO_ROW).params
            ]
            judge.run([comparison for each in asked for comparison in each.comparisons])
            done.update(asked)

    return judge_row


class NO_ROW:
    params = ()


def pytest_generate_tests(metafunc):
    if "row" in metafunc.fixturenames:
        rows = metafunc.module.ROWS
        names = [row.name for row in rows]
        assert len(names) == len(set(names)), f"twice: {[name for name in names if names.count(name) > 1]}"
        metafunc.parametrize("row", rows, ids=names)


def pytest_addoption(parser):
    parser.addoption("--update-expected", action="store_true", help="write expected_failures.txt by this run's tables")


def pytest_sessionfinish(session):
    if session.config.getoption("--update-expected"):
        table.write_expected_failures()
