"""Stands in for the rules_cc repository, whose packaged version is too new for the packaged Bazel.

Our BUILD files load the C++ rules from here, so that they keep working with a Bazel that no longer has them built in.
"""

cc_binary = native.cc_binary
cc_import = native.cc_import
cc_library = native.cc_library
cc_proto_library = native.cc_proto_library
cc_test = native.cc_test
cc_toolchain = native.cc_toolchain
cc_toolchain_suite = native.cc_toolchain_suite
fdo_prefetch_hints = native.fdo_prefetch_hints
fdo_profile = native.fdo_profile
objc_library = native.objc_library
