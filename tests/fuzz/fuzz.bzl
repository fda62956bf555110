"""Fuzz targets: one file each that defines what tests/fuzz/fuzz.h declares."""

load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_library", "cc_test")

def fuzz_target(name, deps, inputs, size = "small", tags = []):
    """NAME_fuzz.cc as the test NAME_test, with so many inputs, and for libFuzzer as NAME_fuzz.

    The latter is built by hand: bazel build --config=fuzz //tests/fuzz:NAME_fuzz
    """
    cc_library(
        name = name,
        testonly = True,
        srcs = [name + "_fuzz.cc"],
        alwayslink = True,
        deps = deps + [":fuzz"],
    )
    cc_test(
        name = name + "_test",
        size = size,
        srcs = ["driver.cc"],
        data = native.glob(["corpus/" + name + "/*"], allow_empty = True),
        local_defines = [
            "FUZZ_NAME=\\\"%s\\\"" % name,
            "FUZZ_INPUTS=%d" % inputs,
        ],
        tags = tags,
        deps = [
            ":fuzz",
            ":mutate",
            ":" + name,
            "//third_party:absl",
            "//third_party:gtest",
        ],
    )
    cc_binary(
        name = name + "_fuzz",
        testonly = True,
        srcs = ["libfuzzer.cc"],
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["manual"],
        deps = [
            ":fuzz",
            ":" + name,
        ],
    )
