#!/usr/bin/env python3
"""Writes operations.h and operations.cc: the functions of core/tensor over tensors, from its headers.

    bind_operations.py FOLDER HEADER...

Each function is declared as it stands there, with its default arguments, but for its types: an Expr becomes a Tensor, a
Graph to build in a Client, and a struct or variant that holds an Expr its namesake in the namespace `tensors`. Several
results, and those of an absl::StatusOr, become absl::StatusOr<std::vector<Tensor>>.

What is a part of the implementation is left out: headers that say "Internal to core/tensor" or "Not for front ends" in
their first comment, and what stands below a line "// ---- for files that ..." of others. Anything else that can't be
bound is an error, which says what to do.
"""

from __future__ import annotations

import pathlib
import re
import sys
from dataclasses import dataclass, field

# Functions whose results are movement of one tensor's elements and hence views of it: all of these headers, and those.
VIEW_HEADERS = {"movement.h"}
VIEWS = {
    "AtLeast1d", "AtLeast2d", "AtLeast3d", "Chunk", "Detach", "Diagonal", "Index", "Rearrange", "Split", "SplitEvery",
    "TensorSplit", "Unbind", "Unfold",
}  # fmt: skip

# Functions that are written by hand for tensors, by the header that has them.
BY_HAND = {
    "Checkpoint": "tensor.h", "Gradient": "tensor.h", "ForLoop": "functional.h", "ScanLoop": "functional.h",
    "WhileLoop": "functional.h", "WithGradient": "functional.h", "WithGradients": "functional.h",
}  # fmt: skip


class CannotBind(Exception):
    pass


# Type, name and default value of a field or parameter.
Declared = tuple[str, str, "str | None"]


@dataclass
class Function:
    header: str
    name: str
    result: str
    params: list[Declared]


@dataclass
class Language:
    functions: list[Function] = field(default_factory=list)
    structs: dict[str, list[Declared]] = field(default_factory=dict)
    variants: dict[str, str] = field(default_factory=dict)
    callables: set[str] = field(default_factory=set)  # functions of Expr
    # In the order of their declarations.
    types: list[str] = field(default_factory=list)


def is_internal(text: str) -> bool:
    comment = re.match(r"(//[^\n]*\n)*", text)
    assert comment
    return bool(re.search(r"Internal\s+to\s+core/tensor|Not\s+for\s+front\s+ends", comment.group().replace("\n//", "")))


def expand_macros(text: str) -> str:
    """TD_BINARY(Add) as the declarations that it stands for."""
    macros: dict[str, tuple[list[str], str]] = {}
    for name, params, body in re.findall(r"^#define (\w+)\((.*?)\)((?:.*\\\n)*.*)$", text, re.M):
        macros[name] = [p.strip() for p in params.split(",")], body.replace("\\\n", " ")

    def expand(use: re.Match[str]) -> str:
        names, body = macros[use.group(1)]
        for name, value in zip(names, use.group(2).split(",")):
            body = re.sub(rf"\b{name}\b", value.strip(), body)
        return body

    text = re.sub(r"^#(.*\\\n)*.*$", "", text, flags=re.M)
    return re.sub(r"^(TD_\w+)\((.*)\)$", expand, text, flags=re.M)


def statements(text: str) -> list[str]:
    """The declarations of a namespace; of bodies of functions only {} is left."""
    result, begin, depth = [], 0, 0
    body = None
    for at, char in enumerate(text):
        if char in "{(":
            if char == "{" and depth == 0:
                body = at
            depth += 1
        elif char in "})":
            depth -= 1
            if char == "}" and depth == 0 and text[begin:body].rstrip().endswith((")", "const")):
                result.append(text[begin:body].strip() + "{}")
                begin, body = at + 1, None
        elif char == ";" and depth == 0:
            result.append(text[begin:at].strip())
            begin, body = at + 1, None
    return [" ".join(s.split()) for s in result if s]


def split(text: str) -> list[str]:
    """At commas outside of brackets."""
    parts, depth = [""], 0
    for char in text:
        depth += (char in "<({[") - (char in ">)}]")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts if part.strip()]


def declarators(text: str) -> list[Declared]:
    """`double margin = 1, p` as two fields of that type."""
    first, *rest = split(text)
    match = re.fullmatch(r"(.*[\w>&*]) ?\b(\w+)(?: = (.*))?", first)
    if not match:
        raise CannotBind(f"'{text}' is no field or parameter that is understood")
    fields = [(match[1], match[2], match[3])]
    for more in rest:
        name, _, default = more.partition(" = ")
        fields.append((match[1], name, default or None))
    return fields


def holds_tensors(language: Language, cpp: str) -> bool:
    return not {"Expr", *language.types}.isdisjoint(re.findall(r"\w+", cpp))


def add(language: Language, header: str, statement: str) -> None:
    if re.match(r"(enum|class|constexpr|inline constexpr) |(inline )?Expr operator", statement):
        return
    if match := re.fullmatch(r"using (\w+) = (.*)", statement):
        if "std::function" in match[2]:
            language.callables.add(match[1])
        elif re.search(r"\bExpr\b", match[2]):
            language.variants[match[1]] = match[2]
            language.types.append(match[1])
        return
    if match := re.fullmatch(r"struct (\w+) ?{(.*)}", statement):
        if holds_tensors(language, match[2]):
            parts = [part.strip() for part in match[2].split(";") if part.strip()]
            language.structs[match[1]] = [declared for part in parts for declared in declarators(part)]
            language.types.append(match[1])
        return
    if re.fullmatch(r"struct \w+", statement):
        return
    match = re.fullmatch(r"(?:inline )?([\w:<>,*& ]+?) (\w+)\((.*)\)(?:{})?", statement)
    if not match:
        raise CannotBind(f"'{statement}' is no declaration that is understood")
    if match[2] in BY_HAND or not holds_tensors(language, match[1] + " " + match[3]):
        return
    params = [declarators(param)[0] for param in split(match[3])]
    language.functions.append(Function(header, match[2], match[1], params))


def read(headers: list[pathlib.Path]) -> Language:
    language = Language()
    # A header's types come before those that use them.
    texts = {header.name: header.read_text() for header in headers}
    done: set[str] = set()

    def visit(name: str) -> None:
        if name in done or name not in texts:
            return
        done.add(name)
        text = texts[name]
        for included in re.findall(r'#include "core/tensor/(\w+\.h)"', text):
            visit(included)
        if is_internal(text):
            return
        public = re.sub(r"^// ---- for files that .*?(?=^// ----|^}  // namespace)", "", text, flags=re.M | re.S)
        inside = re.search(r"namespace tensord {(.*)}", expand_macros(re.sub(r" *//.*", "", public)), re.S)
        for statement in statements(inside.group(1)) if inside else []:
            try:
                add(language, name, statement)
            except CannotBind as error:
                raise CannotBind(f"core/tensor/{name}: {error}") from None

    for name in sorted(texts):
        visit(name)
    return language


class Writer:
    def __init__(self, language: Language):
        self.language = language
        self.types = set(language.types)

    def over_tensors(self, cpp: str) -> str:
        """The type, of tensors."""
        cpp = re.sub(r"\bExpr\b", "Tensor", cpp)
        cpp = re.sub(r"\bGraph&", "const Client&", cpp)
        return re.sub(r"\b(%s)\b" % "|".join(self.types), r"tensors::\1", cpp)

    def check(self, function: Function) -> None:
        types = "|".join(self.types)
        known = re.compile(rf"const (Expr|std::optional<Expr>|{types})&|absl::Span<const (Expr|{types})>|Graph&")
        for cpp, name, _ in function.params:
            takes_function = not self.language.callables.isdisjoint(re.findall(r"\w+", cpp))
            if known.fullmatch(cpp) or not (holds_tensors(self.language, cpp) or takes_function):
                continue
            raise CannotBind(
                f"core/tensor/{function.header}: {function.name}: there is no rule for the parameter '{cpp} {name}'. "
                "Take one of the kinds that client/cc/call.h knows; or write the function over tensors in "
                "client/cc/functional.h and add it to BY_HAND here; or, if it is no operation but a part of others, "
                "put it below a line '// ---- for files that make functions of these'.")

    def result(self, function: Function) -> str:
        if "std::vector<Expr>" in function.result:
            return "absl::StatusOr<std::vector<Tensor>>"
        return self.over_tensors(function.result)

    def declaration(self, function: Function, defaults: bool) -> str:
        params = []
        for cpp, name, default in function.params:
            if cpp == "Graph&":
                name = "client"
            params.append(f"{self.over_tensors(cpp)} {name}" + (f" = {default}" if default and defaults else ""))
        return f"{self.result(function)} {function.name}({', '.join(params)})"

    def header(self) -> str:
        lines = []
        for name in self.language.types:
            if name in self.language.structs:
                lines.append(f"struct {name} {{")
                for cpp, field_name, default in self.language.structs[name]:
                    shown = re.sub(r"\bExpr\b", "Tensor", cpp)
                    lines.append(f"  {shown} {field_name}{f' = {default}' if default else ''};")
                lines.append("};")
            else:
                lines.append(f"using {name} = {re.sub(r'Expr', 'Tensor', self.language.variants[name])};")
        functions, header = [], ""
        for function in self.language.functions:
            if function.header != header:
                header = function.header
                functions.append(f"\n// ---- core/tensor/{header}")
            functions.append(self.declaration(function, defaults=True) + ";")
        includes = sorted({f.header for f in self.language.functions})
        return HEADER.format(includes="\n".join(f'#include "core/tensor/{name}"' for name in includes),
                             types="\n".join(lines), functions="\n".join(functions))

    def source(self) -> str:
        conversions = []
        taken = {word for f in self.language.functions for cpp, _, _ in f.params for word in re.findall(r"\w+", cpp)}
        for name in self.language.types:
            if name not in self.language.structs or name not in taken:
                continue
            fields = [field_name for _, field_name, _ in self.language.structs[name]]
            conversions.append(
                f"void Add(Call& call, const tensors::{name}& x) {{ "
                + " ".join(f"Add(call, x.{f});" for f in fields) + " }\n"
                f"{name} ToExpr(const Call& call, const tensors::{name}& x) {{\n"
                f"  return {{{', '.join(f'.{f} = ToExpr(call, x.{f})' for f in fields)}}};\n}}")
        return SOURCE.format(conversions="\n".join(conversions),
                             functions="\n".join(self.definition(f) for f in self.language.functions))

    def definition(self, function: Function) -> str:
        tensors = [name for cpp, name, _ in function.params if holds_tensors(self.language, cpp)]
        graph = any(cpp == "Graph&" for cpp, _, _ in function.params)
        arguments = ", ".join("graph" if cpp == "Graph&" else f"call({name})" if name in tensors else name
                              for cpp, name, _ in function.params)
        made = f"tensord::{function.name}({arguments})"
        head = self.declaration(function, defaults=False) + " {\n"
        if graph:
            if tensors or function.result != "Expr":
                raise CannotBind(f"core/tensor/{function.header}: {function.name}: a function of a Graph takes no Expr "
                                 "and gives one; write it for tensors by hand and add it to BY_HAND.")
            return f"{head}  return client.Make([&](Graph& graph) {{ return {made}; }});\n}}"
        view = function.header in VIEW_HEADERS or function.name in VIEWS
        head += (f'  Call call("{function.name}", Call::{"kView" if view else "kCopy"});\n'
                 + "".join(f"  Add(call, {name});\n" for name in tensors))
        if function.result == "Expr":
            return f"{head}  return call.One([&] {{ return {made}; }});\n}}"
        if "std::vector<Expr>" in function.result:
            return f"{head}  return call.Any([&]() -> absl::StatusOr<std::vector<Expr>> {{ return {made}; }});\n}}"
        if function.result == "std::pair<Expr, Expr>":
            fields = ["first", "second"]
        elif function.result in self.language.structs:
            fields = []
            for cpp, field_name, _ in self.language.structs[function.result]:
                if cpp != "Expr":
                    raise CannotBind(f"core/tensor/{function.header}: {function.name}: the result's field "
                                     f"{field_name} is no Expr; write it by hand and add it to BY_HAND.")
                fields.append(field_name)
        else:
            raise CannotBind(f"core/tensor/{function.header}: {function.name}: there is no rule for the result "
                             f"'{function.result}'; write it by hand and add it to BY_HAND.")
        made_fields = ", ".join(f"made.{f}" for f in fields)
        results = ", ".join(f"results[{i}]" for i in range(len(fields)))
        return (f"{head}  const std::vector<Tensor> results = call.Many({len(fields)}, [&] {{\n"
                f"    const auto made = {made};\n    return std::vector<Expr>{{{made_fields}}};\n  }});\n"
                f"  return {{{results}}};\n}}")


HEADER = """\
// The functions of core/tensor over tensors: what they mean is said there. Made by bind_operations.py.
#pragma once

#include <absl/status/statusor.h>

#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "client/cc/tensor.h"
{includes}

namespace tensord {{

class Client;

namespace tensors {{
{types}
}}  // namespace tensors
{functions}

}}  // namespace tensord
"""

SOURCE = """\
// Made by bind_operations.py.
#include "client/cc/operations.h"

#include "client/cc/call.h"
#include "client/cc/client.h"

namespace tensord {{
namespace client {{
{conversions}
}}  // namespace client

using client::Call;

{functions}

}}  // namespace tensord
"""


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    try:
        language = read([pathlib.Path(name) for name in sys.argv[2:]])
        names = {function.name for function in language.functions}
        if missing := VIEWS - names:
            raise CannotBind(f"VIEWS in client/cc/bind_operations.py has {sorted(missing)}, which core/tensor lacks")
        writer = Writer(language)
        for function in language.functions:
            writer.check(function)
        header, source = writer.header(), writer.source()
    except CannotBind as error:
        sys.exit(f"bind_operations.py: {error}")
    (folder / "operations.h").write_text(header)
    (folder / "operations.cc").write_text(source)


if __name__ == "__main__":
    main()
