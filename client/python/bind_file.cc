// Files that tensors are made from, and the way of a tensor's data into one.
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "client/cc/file.h"
#include "client/python/bind.h"
#include "core/base/status.h"

namespace tensord::python {
namespace {

py::bytes Read(const File& file, uint64_t offset, uint64_t size) {
  if (offset > file.size() || size > file.size() - offset) {
    Raise(InvalidArgument("'{}': bytes {} to {} are asked for, it has {}", file.path(), offset,
                          offset + size, file.size()));
  }
  std::string data(size, '\0');
  absl::Status status;
  {
    py::gil_scoped_release release;
    status = file.Read(offset, absl::MakeSpan(data));
  }
  RaiseIfError(status);
  return data;
}

void WriteTo(const Tensor& tensor, int descriptor) {
  absl::Status status;
  {
    py::gil_scoped_release release;
    status = tensor.CopyTo([descriptor](uint64_t, absl::Span<const char> data) {
      while (!data.empty()) {
        const ssize_t count = write(descriptor, data.data(), data.size());
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return absl::ErrnoToStatus(errno, "the data cannot be written");
        data.remove_prefix(static_cast<size_t>(count));
      }
      return absl::OkStatus();
    });
  }
  RaiseIfError(status);
}

}  // namespace

void BindFile(py::module_& module, py::class_<Tensor>& tensor) {
  py::class_<File, std::shared_ptr<File>>(
      module, "File", "A file whose bytes are tensors, read when they are first needed.")
      .def(py::init([](const std::string& path) { return ValueOrRaise(File::Open(path)); }),
           py::arg("path"))
      .def_property_readonly("path", &File::path)
      .def_property_readonly("nbytes", &File::size)
      .def("fileno", &File::descriptor)
      .def("read", &Read, py::arg("offset"), py::arg("count"))
      .def(
          "tensor",
          [](const std::shared_ptr<File>& file, uint64_t offset, py::handle dtype,
             const Ints& shape) {
            return Checked(CurrentClient().FromFile(file, offset, ParseStored(dtype), shape));
          },
          py::arg("offset"), py::arg("dtype"), py::arg("shape"),
          "Its bytes from `offset` on: row-major, little-endian. Nothing is read yet.");
  tensor.def("_write_to", &WriteTo, py::arg("descriptor"),
             "Writes its data, chunk by chunk, where the file descriptor stands.");
}

}  // namespace tensord::python
