"""Every field, enum value and call of the wire says what it means: by a comment above it, or behind it."""

import pathlib
import re

import pytest

_PROTO = pathlib.Path(__file__).resolve().parents[2] / "proto/tensord"  # others' stand beside it, as they are
_FILES = sorted(_PROTO.rglob("*.proto"))

_DECLARATION = re.compile(
    r"(?P<block>message|service|enum|oneof)\s+(?P<name>\w+)"
    r"|rpc\s+(?P<call>\w+)"
    r"|(?:repeated\s+|optional\s+)?(?:map<[^>]*>|[\w.]+)\s+(?P<field>\w+)\s*=\s*\d+"
    r"|(?P<value>[A-Z][A-Z0-9_]*)\s*=\s*\d+"
)


def _undocumented(text):
    """Names of what has no comment, as Message.field."""
    found, blocks, commented = [], [], False
    for line in text.splitlines():
        code, comment = (re.split("//", line, maxsplit=1) + [None])[:2]
        code = code.strip()
        if not code:
            commented = comment is not None
            continue
        if match := _DECLARATION.match(code):
            kind, name = match["block"], match["name"] or match["call"] or match["field"] or match["value"]
            if not (kind or commented or comment is not None):
                found.append(".".join([*blocks, name]))
            if kind and code.endswith("{"):
                blocks.append(name)
        if code == "}":
            blocks.pop()
        commented = False
    assert not blocks
    return found


@pytest.mark.parametrize("file", _FILES, ids=lambda file: file.name)
def test_everything_is_documented(file):
    assert not _undocumented(file.read_text())


def test_there_are_files():
    assert {"session.proto", "graph.proto", "admin.proto"} <= {file.name for file in _FILES}


def test_finds_what_is_not_documented():
    """Guards the search itself."""
    text = """
service S {
  rpc Call(A) returns (B);
  // Documented.
  rpc Other(A) returns (B);
}
message A {
  string name = 1;
  uint64 bytes = 2;  // in use
  // Of names.
  map<string, sint64> values = 3;
  map<string, sint64> more = 4;

  // Apart.

  repeated fixed64 handles = 5;
  oneof what {
    B b = 6;
  }
}
message B {}
enum E {
  E_UNSPECIFIED = 0;
  E_ONE = 1;  // one
}
"""
    assert _undocumented(text) == ["S.Call", "A.name", "A.more", "A.handles", "A.what.b", "E.E_UNSPECIFIED"]
