"""The macro by which a backend runs the conformance suite."""

load("@rules_cc//cc:defs.bzl", "cc_test")

def backend_conformance_test(name, backend):
    """Runs every conformance test on two devices of `backend`, a name in backends/registry.cc."""
    cc_test(
        name = name,
        size = "small",
        args = ["--backend=" + backend],
        tags = [backend],
        deps = ["//backends/conformance:suite"],
    )
