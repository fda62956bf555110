"""C++ code from .proto files, by the system's protoc."""

load("@rules_cc//cc:defs.bzl", "cc_library")

def tensord_proto_library(name, srcs, deps = [], grpc = False, visibility = None):
    """Makes a cc_library whose headers are included by path: "proto/tensord/v1/session.pb.h".

    Services are a library apart, so that who only needs messages doesn't link gRPC: beside "session_proto" stands
    "session_grpc", with "proto/tensord/v1/session.grpc.pb.h".

    Args:
      name: the library; ends in "_proto".
      srcs: .proto files of this package. They import one another, and others, by path from the repository's root.
      deps: tensord_proto_library targets that srcs import.
      grpc: whether srcs have services.
      visibility: who may depend on it.
    """
    native.filegroup(
        name = name + "_srcs",
        srcs = srcs + [_srcs_label(dep) for dep in deps],
        visibility = visibility,
    )
    _generated_library(
        name = name,
        srcs = srcs,
        imports = name + "_srcs",
        extension = ".pb",
        flags = "--cpp_out=$(GENDIR)",
        visibility = visibility,
        deps = deps + ["//third_party:protobuf"],
    )
    if grpc:
        _generated_library(
            name = name[:-len("_proto")] + "_grpc",
            srcs = srcs,
            imports = name + "_srcs",
            extension = ".grpc.pb",
            flags = "--plugin=protoc-gen-grpc=$$(command -v grpc_cpp_plugin) --grpc_out=$(GENDIR)",
            visibility = visibility,
            deps = [
                name,
                "//third_party:grpc",
            ],
        )

def _generated_library(name, srcs, imports, extension, flags, visibility, deps):
    stems = [src[:-len(".proto")] + extension for src in srcs]
    headers = [stem + ".h" for stem in stems]
    sources = [stem + ".cc" for stem in stems]
    native.genrule(
        name = name + "_gen",
        srcs = srcs + [imports],
        outs = headers + sources,
        cmd = "protoc -I. %s %s" % (flags, " ".join(["$(location %s)" % src for src in srcs])),
        message = "Generating C++ from protos",
    )
    cc_library(
        name = name,
        srcs = sources,
        hdrs = headers,
        copts = ["-w"],  # generated code is not ours to tidy
        visibility = visibility,
        deps = deps,
    )

def _srcs_label(label):
    if ":" in label:
        return label + "_srcs"
    return label + ":" + label.split("/")[-1] + "_srcs"
