"""Adds up the results that tools/test collected, and prints "N passed, N failed" as its last line.

The folder holds Bazel's build events (*.bazel.json), pytest's results (*.xml), failed_steps, which names
the commands that failed otherwise, and skipped_steps, which says what could not be run and why. The exit status is 0 if something passed and nothing failed.
"""

import json
import pathlib
import sys
import urllib.parse
import urllib.request
import xml.etree.ElementTree


def main() -> int:
    folder = pathlib.Path(sys.argv[1])
    passed, skipped, failed = 0, 0, []
    for path in sorted(folder.glob("*.bazel.json")):
        for name, status, xml_path in bazel_targets(path):
            cases = list(xml_cases(xml_path)) if xml_path else []
            ok = status in ("PASSED", "FLAKY")
            passed += sum(outcome == "passed" for _, outcome in cases) or (ok and not cases)
            skipped += sum(outcome == "skipped" for _, outcome in cases)
            wrong = [f"{name} {case}" for case, outcome in cases if outcome == "failed"]
            # A target that ended in a crash or a timeout has no failed case to show for it.
            failed += wrong if wrong or ok else [f"{name} ({status})"]
    for path in sorted(folder.glob("*.xml")):
        for case, outcome in xml_cases(path):
            passed += outcome == "passed"
            skipped += outcome == "skipped"
            failed += [case] if outcome == "failed" else []
    steps = folder / "failed_steps"
    if steps.exists():
        failed += [f"{name}: see above" for name in steps.read_text().splitlines()]

    for name in failed:
        print(f"FAILED {name}")
    not_run = folder / "skipped_steps"
    if not_run.exists():
        for line in not_run.read_text().splitlines():
            print(f"SKIPPED {line}")
    if skipped:
        print(f"{skipped} skipped, with the reason in each test's log")
    print(f"{passed} passed, {len(failed)} failed")
    return 0 if passed and not failed else 1


def bazel_targets(path: pathlib.Path):
    """Yields (label, status, test.xml or None) for the last attempt of each test in a file of build events."""
    last = {}
    for line in path.read_text().splitlines():
        event = json.loads(line)
        if "testResult" not in event:
            continue
        key = event["id"]["testResult"]
        result = event["testResult"]
        xml = None
        for output in result.get("testActionOutput", []):
            if output["name"] == "test.xml" and output.get("uri", "").startswith("file://"):
                xml = pathlib.Path(urllib.request.url2pathname(urllib.parse.urlparse(output["uri"]).path))
        last[key["label"], key.get("shard"), key.get("run")] = (key["label"], result["status"], xml)
    return last.values()


def xml_cases(path: pathlib.Path):
    """Yields (name, "passed", "skipped" or "failed") for each test case in a JUnit file, which may be missing."""
    try:
        root = xml.etree.ElementTree.parse(path).getroot()
    except (OSError, xml.etree.ElementTree.ParseError):
        return  # The test died before writing it.
    for case in root.iter("testcase"):
        if case.get("status") == "notrun":
            continue
        name = ".".join(filter(None, (case.get("classname"), case.get("name"))))
        if case.find("failure") is not None or case.find("error") is not None:
            yield name, "failed"
        elif case.find("skipped") is not None or case.get("result") == "skipped":
            yield name, "skipped"
        else:
            yield name, "passed"


if __name__ == "__main__":
    sys.exit(main())
