// Generators of random numbers: key and counter. The package makes the class of it.
#include "client/python/bind.h"
#include "core/tensor/movement.h"

namespace tensord::python {
namespace {

// A draw of nothing, after which `count` numbers count as drawn: key and counter, two words each.
Tensor StateAfter(const Generator& generator, uint64_t count) {
  const client::GeneratorScope scope(generator.own);
  return Checked(Tensor(CurrentClient().session()->Random(count, [](const RandomState& state) {
    return Drawn{.value = Cat({state.key, state.counter}, 0), .counter = state.counter};
  })));
}

}  // namespace

void BindGenerator(py::module_& module) {
  py::class_<Generator>(module, "_Generator", "See tensord.Generator.")
      .def(py::init<>())
      .def(
          "_start",
          [](Generator& generator, uint64_t seed, bool own) {
            client::Session& session = *CurrentClient().session();
            absl::Status status;
            {
              py::gil_scoped_release release;
              status = own ? session.Seed(seed, generator.own) : session.Seed(seed);
            }
            RaiseIfError(status);
          },
          py::arg("seed"), py::arg("own"),
          "Starts it anew: itself, or the current client's that it stands for.")
      .def(
          "_words", [](const Generator& generator) { return StateAfter(generator, 0); },
          "Key and counter, two words each: uint32 [4].")
      .def(
          "_skip", [](const Generator& generator, uint64_t count) { StateAfter(generator, count); },
          py::arg("count"), "As if so many numbers had been drawn.");
}

}  // namespace tensord::python
