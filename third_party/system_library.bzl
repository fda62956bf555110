"""A system library as a C++ target."""

load("@system//:flags.bzl", "FLAGS")

def _system_library_impl(ctx):
    context = cc_common.create_compilation_context(
        defines = depset(ctx.attr.defines),
        system_includes = depset(ctx.attr.includes),
    )

    # The lists name more libraries than any one binary calls; --as-needed keeps the rest out.
    libs = ["-Wl,--push-state,--as-needed"] + ctx.attr.libs + ["-Wl,--pop-state"] if ctx.attr.libs else []
    linker_input = cc_common.create_linker_input(owner = ctx.label, user_link_flags = depset(libs))
    own = CcInfo(
        compilation_context = context,
        linking_context = cc_common.create_linking_context(linker_inputs = depset([linker_input])),
    )
    return [cc_common.merge_cc_infos(cc_infos = [own] + [dep[CcInfo] for dep in ctx.attr.deps])]

_system_library = rule(
    implementation = _system_library_impl,
    attrs = {
        "defines": attr.string_list(),
        "deps": attr.label_list(providers = [CcInfo]),
        "includes": attr.string_list(),
        "libs": attr.string_list(),
    },
    provides = [CcInfo],
)

def system_library(name, deps = []):
    """Makes a target of the library that system.bzl lists under the same name.

    Args:
      name: the library.
      deps: other system libraries that its headers include.
    """
    _system_library(name = name, deps = deps, **FLAGS[name])
