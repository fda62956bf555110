"""Libraries that the system's package manager installed, as Bazel targets.

Flags are asked from pkg-config and llvm-config rather than written down, because paths and library lists differ
between distributions and releases.
"""

# Target name -> pkg-config modules. "absl" stands for everything of Abseil that we use: as the linker drops what is
# not needed, one target serves all.
_PKG_CONFIG = {
    "absl": ["absl_" + module for module in [
        "btree",
        "cleanup",
        "fixed_array",
        "flags",
        "flags_parse",
        "flags_usage",
        "flat_hash_map",
        "flat_hash_set",
        "hash",
        "inlined_vector",
        "node_hash_map",
        "random_random",
        "span",
        "status",
        "statusor",
        "strings",
        "str_format",
        "synchronization",
        "time",
    ]],
    "gmock": ["gmock"],
    "grpc": ["grpc++"],
    "gtest": ["gtest"],
    "gtest_main": ["gtest_main"],
    "openssl": ["openssl"],
    "prometheus": ["prometheus-cpp-pull"],
    "protobuf": ["protobuf"],
    "pybind11": ["pybind11", "python3"],
    "spdlog": ["spdlog"],
    "sqlite3": ["sqlite3"],
    "tomlplusplus": ["tomlplusplus"],
    "xxhash": ["libxxhash"],
    "z3": ["z3"],
    "zlib": ["zlib"],
    "zstd": ["libzstd"],
}

# Libraries that Debian ships without a pkg-config file, in the default folders.
_PLAIN_LIBS = {
    "civetweb": ["-lcivetweb"],
}

# Parts of the above that Debian ships without one.
_EXTRA_LIBS = {
    "grpc": ["-lgrpc++_reflection"],
}

_LLVM_VERSION = "19"

def _run(ctx, command):
    result = ctx.execute(command)
    if result.return_code != 0:
        fail("%s failed; tools/setup installs what is missing.\n%s" % (" ".join(command), result.stderr))
    return result.stdout.strip()

def _parse(text):
    """Sorts compiler and linker flags into what system_library takes."""
    includes, defines, libs = [], [], []
    for flag in text.split(" "):
        flag = flag.strip()
        if flag.startswith("-I"):
            includes.append(flag[2:])
        elif flag.startswith("-D"):
            defines.append(flag[2:])
        elif (flag.startswith("-l") or flag.startswith("-L") or flag == "-pthread") and flag not in libs:
            libs.append(flag)
    return {"defines": defines, "includes": includes, "libs": libs}

def _llvm(ctx):
    tool = "llvm-config-" + _LLVM_VERSION

    # llvm-config names a folder of symbolic links. The compiler reports the links' targets, which Bazel recognises as
    # system headers, and must be given them.
    link = _run(ctx, [tool, "--includedir"])
    includes = [
        str(ctx.path(link + "/" + name).realpath.dirname)
        for name in ["llvm", "llvm-c"]
    ]
    return {
        "defines": [],
        "includes": includes,
        "libs": [
            "-L" + _run(ctx, [tool, "--libdir"]),
            _run(ctx, [tool, "--link-shared", "--libs"]),
        ],
    }

def _system_libraries_impl(ctx):
    flags = {"llvm": _llvm(ctx)}
    for name, modules in _PKG_CONFIG.items():
        flags[name] = _parse(_run(ctx, ["pkg-config", "--cflags", "--libs"] + modules))
        flags[name]["libs"] += _EXTRA_LIBS.get(name, [])
    for name, libs in _PLAIN_LIBS.items():
        flags[name] = {"defines": [], "includes": [], "libs": libs}
    ctx.file("BUILD.bazel", "")
    ctx.file("flags.bzl", "FLAGS = " + repr(flags) + "\n")

system_libraries = repository_rule(
    implementation = _system_libraries_impl,
    # tools/setup changes this when packages change, which makes the flags be asked again.
    environ = ["TENSORD_SYSTEM"],
    local = True,
)
