"""No path of dependencies leads where the folders' rules forbid one. Each rule reads (from, to) as folders or targets.

Visibility states these rules and clang's layering check enforces them per include; this test sees the whole path.
"""

import collections
import pathlib
import re
import subprocess

import pytest

_ROOT = pathlib.Path(__file__).resolve().parents[2]

_LLVM = "third_party:llvm"
_GRPC = "third_party:grpc"

_FORBIDDEN = [
    ("core", "backends"),
    ("core", "server"),
    ("core", "client"),
    ("core", _GRPC),
    ("backends", "server"),
    ("backends", "client"),
    ("backends", _GRPC),
    ("server", "client"),
    ("client", "server"),
    ("client", "backends"),
    # The client is thin.
    ("client", "core/schedule"),
    ("client", "core/codegen"),
    ("client", "core/render"),
    ("client", "core/compile"),
    ("client", "core/device"),
    ("client", "core/runtime"),
    ("client", _LLVM),
    # Three stages that meet only in core/runtime.
    ("core/schedule", "core/codegen"),
    ("core/schedule", "core/render"),
    ("core/codegen", "core/schedule"),
    ("core/codegen", "core/render"),
    ("core/render", "core/schedule"),
    ("core/render", "core/codegen"),
]

# What ships, and so must not need what doesn't.
_SHIPPED = ["core", "backends", "server", "client", "proto"]


def _query(*arguments):
    result = subprocess.run(
        ["bazel", "query", "--noshow_progress", *arguments],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def graph():
    """Target -> the targets in this repository that it depends on directly."""
    edges = collections.defaultdict(set)
    text = _query("--output=graph", "--nograph:factored", "--graph:node_limit=-1", "//...")
    for line in text.splitlines():
        labels = re.findall(r'"(//[^"]*)"', line)
        for label in labels:
            edges[label]  # pylint: disable=pointless-statement
        if "->" in line and len(labels) == 2:
            edges[labels[0]].add(labels[1])
    assert edges, "bazel query found no targets"
    return edges


@pytest.fixture(scope="module")
def test_only():
    """Tests, and what only tests may use."""
    return set(_query('kind(".*_test rule", //...) union attr(testonly, 1, //...)').split())


def _within(label, place):
    if ":" in place:
        return label == f"//{place}"
    return label.startswith((f"//{place}/", f"//{place}:"))


def _path(graph, sources, is_target):
    """The shortest path from a source to a target, as text, or None."""
    came_from = dict.fromkeys(sources)
    queue = collections.deque(came_from)
    while queue:
        label = queue.popleft()
        if is_target(label):
            steps = []
            while label is not None:
                steps.append(label)
                label = came_from[label]
            return " -> ".join(reversed(steps))
        for dependency in sorted(graph[label]):
            if dependency not in came_from:
                came_from[dependency] = label
                queue.append(dependency)
    return None


@pytest.mark.parametrize(("source", "target"), _FORBIDDEN, ids=lambda place: place)
def test_no_path(graph, source, target):
    sources = [label for label in graph if _within(label, source)]
    assert not _path(graph, sources, lambda label: _within(label, target))


def test_no_path_from_one_backend_to_another(graph, test_only):
    """Tests are exempt: the conformance suite opens its backend through the registry, which knows all."""
    backends = {match[1] for label in graph if (match := re.match(r"//backends/([^/:]+)", label))}
    backends -= {"conformance", "hcq"}
    for name in sorted(backends):
        others = [f"backends/{other}" for other in backends - {name}]
        sources = [label for label in graph if label not in test_only and _within(label, f"backends/{name}")]
        assert not _path(graph, sources, lambda label: any(_within(label, other) for other in others))


def test_nothing_shipped_needs_tests_or_tools(graph, test_only):
    sources = [
        label for label in graph if label not in test_only and any(_within(label, place) for place in _SHIPPED)
    ]
    assert not _path(
        graph, sources, lambda label: label in test_only or _within(label, "tests") or _within(label, "tools")
    )


def test_finds_a_forbidden_path():
    """Guards the search itself: a rule that can't fail would pass unnoticed."""
    graph = {"//a:x": {"//b:y"}, "//b:y": {"//c/d:z"}, "//c/d:z": set()}
    assert _path(graph, ["//a:x"], lambda label: _within(label, "c")) == "//a:x -> //b:y -> //c/d:z"
    assert _path(graph, ["//b:y"], lambda label: _within(label, "a")) is None
