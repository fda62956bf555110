// Tensors that processes share.
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "client/python/bind.h"
#include "core/base/status.h"

namespace tensord::python {
namespace {

uint64_t Publish(const std::string& name, const Client::Tensors& tensors,
                 const std::vector<std::string>& readers) {
  if (tensors.empty()) Raise(InvalidArgument("publish '{}': there is no tensor", name));
  client::Session::Tensors states;
  for (const auto& [key, tensor] : tensors) states.emplace_back(key, tensor.state());
  absl::StatusOr<v1::PublishReply> reply;
  {
    py::gil_scoped_release release;
    // Of the session that has them, which need not be the current one.
    reply = tensors[0].second.session().Publish(name, states, readers);
  }
  return ValueOrRaise(std::move(reply)).version();
}

Client::Tensors Attach(const std::string& name, const std::string& owner) {
  Client& client = CurrentClient();
  absl::StatusOr<Client::Tensors> tensors;
  {
    py::gil_scoped_release release;
    tensors = client.Attach(name, owner);
  }
  return ValueOrRaise(std::move(tensors));
}

using Row = std::tuple<std::string, std::string, uint64_t, uint64_t, uint64_t, uint64_t, bool,
                       std::vector<std::string>>;
std::vector<Row> Published() {
  Client& client = CurrentClient();
  absl::StatusOr<std::vector<v1::Publication>> publications;
  {
    py::gil_scoped_release release;
    publications = client.Published();
  }
  std::vector<Row> rows;
  for (const v1::Publication& each : ValueOrRaise(std::move(publications))) {
    rows.emplace_back(each.owner(), each.name(), each.version(), each.tensor_count(), each.bytes(),
                      each.holders(), each.saved(),
                      std::vector<std::string>(each.readers().begin(), each.readers().end()));
  }
  return rows;
}

void Unpublish(const std::string& name) {
  Client& client = CurrentClient();
  absl::Status status;
  {
    py::gil_scoped_release release;
    status = client.Unpublish(name);
  }
  RaiseIfError(status);
}

}  // namespace

void BindSharing(py::module_& module, py::class_<Tensor>& tensor) {
  tensor.def(
      "publish",
      [](const Tensor& x, const std::string& name, const std::vector<std::string>& readers) {
        return Publish(name, {{"", x}}, readers);
      },
      py::arg("name"), py::kw_only(), py::arg("readers") = std::vector<std::string>(),
      "Gives it a name by which other processes can attach it; see tensord.publish.");
  module.def("_publish", &Publish, py::arg("name"), py::arg("tensors"), py::arg("readers"));
  module.def("_attach", &Attach, py::arg("name"), py::arg("owner"));
  module.def("_published", &Published);
  module.def("_unpublish", &Unpublish, py::arg("name"));
}

}  // namespace tensord::python
