import json
import pathlib
import subprocess
import sys

import pytest

_SCRIPT = pathlib.Path(__file__).with_name("count_tests.py")
_JUNIT = """<testsuites><testsuite>
<testcase classname="A" name="passes"/>
<testcase classname="A" name="disabled" status="notrun"/>
<testcase classname="A" name="skips" result="skipped"/>{}
</testsuite></testsuites>"""
_FAILURE = '<testcase classname="A" name="fails"><failure/></testcase>'


def event(label, status, xml):
    outputs = [{"name": "test.xml", "uri": xml.as_uri()}]
    return json.dumps(
        {"id": {"testResult": {"label": label}}, "testResult": {"status": status, "testActionOutput": outputs}}
    )


def count(folder):
    result = subprocess.run([sys.executable, _SCRIPT, folder], capture_output=True, text=True, check=False)
    return result.returncode, result.stdout.splitlines()


@pytest.mark.parametrize(
    ("status", "cases", "code", "last"),
    [
        ("PASSED", "", 0, "1 passed, 0 failed"),
        ("FAILED", _FAILURE, 1, "1 passed, 1 failed"),
        ("TIMEOUT", "", 1, "1 passed, 1 failed"),
    ],
)
def test_counts_a_bazel_target(tmp_path, status, cases, code, last):
    xml = tmp_path / "logs" / "test.xml"
    xml.parent.mkdir()
    xml.write_text(_JUNIT.format(cases))
    (tmp_path / "x.bazel.json").write_text(event("//a:b", status, xml))
    got, lines = count(tmp_path)
    assert (got, lines[-1]) == (code, last)
    assert "1 skipped, with the reason in each test's log" in lines


def test_counts_a_crash_before_any_result(tmp_path):
    (tmp_path / "x.bazel.json").write_text(event("//a:b", "FAILED", tmp_path / "missing.xml"))
    assert count(tmp_path) == (1, ["FAILED //a:b (FAILED)", "0 passed, 1 failed"])


def test_counts_a_failed_step_besides_tests_that_pass(tmp_path):
    (tmp_path / "pytest.xml").write_text(_JUNIT.format(""))
    (tmp_path / "failed_steps").write_text("build\n")
    code, lines = count(tmp_path)
    assert (code, lines[-1]) == (1, "1 passed, 1 failed")


def test_nothing_run_is_a_failure(tmp_path):
    assert count(tmp_path) == (1, ["0 passed, 0 failed"])


def test_says_what_was_not_run(tmp_path):
    (tmp_path / "pytest.xml").write_text(_JUNIT.format(""))
    (tmp_path / "skipped_steps").write_text("tests/torch: PyTorch could not be downloaded\n")
    code, lines = count(tmp_path)
    assert (code, lines[-1]) == (0, "1 passed, 0 failed")
    assert "SKIPPED tests/torch: PyTorch could not be downloaded" in lines
