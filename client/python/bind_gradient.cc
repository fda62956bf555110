// Derivatives. The package gives the functions here their signatures; hooks and the search for NaN
// are its own (tensord/autograd), and come in where there are any.
#include "client/cc/tensor.h"
#include "client/python/bind.h"
#include "client/python/operands.h"
#include "client/python/parts.h"
#include "core/base/status.h"
#include "core/tensor/build.h"
#include "core/tensor/custom_gradient.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/reduce.h"
#include "core/tensor/statistics.h"

namespace tensord::python {
namespace {

// Whether the package runs backward, which asks it where each operation is made.
bool finds_nan = false;

// An object of Python's that is let go of on any thread: at once if it has the interpreter's lock,
// else when one with it comes by.
class Held {
 public:
  explicit Held(py::object object) : object_(object.release().ptr()) { LetGo(); }
  ~Held() {
    absl::MutexLock lock(&mu());
    waiting().push_back(object_);
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  py::object object() const { return py::reinterpret_borrow<py::object>(object_); }

  // Needs the interpreter's lock.
  static void LetGo() {
    std::vector<PyObject*> objects;
    {
      absl::MutexLock lock(&mu());
      objects.swap(waiting());
    }
    for (PyObject* object : objects) Py_DECREF(object);
  }

 private:
  static absl::Mutex& mu() {
    static absl::Mutex& mu = *new absl::Mutex;
    return mu;
  }
  static std::vector<PyObject*>& waiting() {
    static std::vector<PyObject*>& waiting = *new std::vector<PyObject*>;
    return waiting;
  }

  PyObject* const object_;
};

py::object HooksOf(const Tensor& x) {
  const std::shared_ptr<void> hooks = x.session().Hooks(x.state());
  if (hooks == nullptr) return py::none();
  return static_cast<const Held*>(hooks.get())->object();
}

void SetHooks(const Tensor& x, const py::object& hooks) {
  x.session().SetHooks(x.state(), std::make_shared<Held>(hooks));
}

py::object Package(const char* module, const char* name) {
  return py::module_::import(module).attr(name);
}

bool ByPackage(const Tensor& loss) { return finds_nan || loss.session().has_hooks(); }

void Backward(const Tensor& x, const std::optional<Tensor>& gradient, bool create_graph,
              const std::optional<std::vector<Tensor>>& inputs) {
  if (ByPackage(x)) {
    Package("tensord.autograd.hooks", "backward")(x, gradient, create_graph, inputs);
    return;
  }
  RaiseIfError(x.Backward(gradient, inputs, create_graph));
}

void SetGrad(const Tensor& x, std::optional<Tensor> gradient) {
  if (gradient && (gradient->shape() != x.shape() || gradient->dtype() != x.dtype())) {
    Raise(InvalidArgument("grad: {}{} for a tensor that is {}{}; they are to be the same",
                          Name(gradient->dtype()), ShapeText(gradient->shape()), Name(x.dtype()),
                          ShapeText(x.shape())));
  }
  x.SetGrad(std::move(gradient));
}

py::list Gradient(const Tensor& loss, const py::args& targets, std::optional<Tensor> gradient) {
  const std::vector<Tensor> tensors = TensorsOf(targets);
  if (ByPackage(loss))
    return Package("tensord.autograd.hooks", "gradients")(loss, tensors, gradient);
  return py::cast(ValueOrRaise(loss.Gradient(tensors, std::move(gradient))));
}

std::vector<Tensor> AllChecked(std::vector<client::StateRef> states) {
  std::vector<Tensor> tensors;
  for (client::StateRef& state : states) tensors.push_back(Checked(Tensor(std::move(state))));
  return tensors;
}

// None for a tensor that is gone.
std::vector<std::pair<std::optional<Tensor>, Tensor>> TargetsOf(const Tensor& loss) {
  std::vector<std::pair<std::optional<Tensor>, Tensor>> targets;
  for (client::Session::GradientTarget& target :
       ValueOrRaise(loss.session().GradientTargets(loss.state()))) {
    std::optional<Tensor> tensor;
    if (target.state) tensor = Tensor(std::move(target.state));
    targets.emplace_back(std::move(tensor), Tensor(std::move(target.at)));
  }
  return targets;
}

std::vector<client::StateRef> StatesOf(const std::vector<Tensor>& tensors) {
  std::vector<client::StateRef> states;
  for (const Tensor& tensor : tensors) states.push_back(tensor.state());
  return states;
}

std::vector<Tensor> CheckpointOf(const std::vector<Tensor>& results,
                                 const std::vector<Tensor>& arguments) {
  std::vector<Tensor> kept;
  for (Tensor& tensor : Checkpoint(results, arguments)) kept.push_back(Checked(std::move(tensor)));
  return kept;
}

// Values in a row, whose gradient is a function of one stand-in.
Tensor CustomGradientOf(const Tensor& value, const std::vector<Tensor>& inputs,
                        const Tensor& stand_in, const std::vector<Tensor>& gradients) {
  std::vector<Tensor> all = inputs;
  all.insert(all.end(), gradients.begin(), gradients.end());
  all.push_back(value);
  all.push_back(stand_in);
  return Checked(
      Tensor(value.session().Apply(StatesOf(all), [&](Graph&, absl::Span<const Expr> sources) {
        const size_t n = inputs.size();
        return WithGradient(sources[2 * n], sources.first(n), sources[2 * n + 1],
                            sources.subspan(n, n));
      })));
}

std::vector<Tensor> GradientsOf(const Tensor& loss, const std::vector<Tensor>& targets,
                                const std::optional<Tensor>& seed,
                                const std::vector<std::pair<Tensor, Tensor>>& given) {
  std::vector<std::pair<client::StateRef, client::StateRef>> said;
  for (const auto& [at, gradient] : given) said.emplace_back(at.state(), gradient.state());
  return AllChecked(loss.session().Gradients(loss.state(), StatesOf(targets),
                                             seed ? seed->state() : nullptr, said));
}

// Whether something of `x` is made of one of the tensors.
bool DependsOn(const Tensor& x, const std::vector<Tensor>& tensors) {
  std::vector<Tensor> all = {x};
  all.insert(all.end(), tensors.begin(), tensors.end());
  bool depends = false;
  Checked(Tensor(x.session().Apply(StatesOf(all), [&](Graph&, absl::Span<const Expr> sources) {
    const Node* root = sources[0].node();
    for (const Node* node : TopologicalOrder({&root, 1})) {
      for (const Expr& tensor : sources.subspan(1)) depends |= tensor.node() == node;
    }
    return sources[0];
  })));
  return depends;
}

// Whether a derivative of `x` by another tensor is made of anything.
bool Reaches(const Tensor& x, const Tensor& other) {
  bool reaches = false;
  for (const client::StateRef& value : x.session().ValuesOnTheWay(x.state(), false)) {
    reaches |= value->value == other.state()->value;
  }
  return reaches;
}

// What an example of the rows of `batch` is called in a function that is mapped over them.
Tensor ExampleOf(const Tensor& batch) {
  return Checked(Lift(
      [](const Expr& x) {
        const Expr one = Sum(x, 0);
        return StandIn(one.ok() ? Cast(one, x.dtype()) : one);
      },
      batch));
}

void SetRecorder(const py::object& recorder) {
  finds_nan = !recorder.is_none();
  if (!finds_nan) {
    client::SetRecorder(nullptr);
    return;
  }
  const auto held = std::make_shared<Held>(recorder);
  client::SetRecorder([held]() -> std::string {
    // A thread that computes without the lock has no line of Python that it is at.
    if (!PyGILState_Check()) return "";
    return py::str(held->object()());
  });
}

}  // namespace

void BindGradients(py::class_<Tensor>& tensor) {
  tensor
      .def_property(
          "requires_grad", &Tensor::requires_grad,
          [](const Tensor& x, bool flag) { RaiseIfError(x.SetRequiresGrad(flag)); },
          "Whether it is made of tensors with a gradient, or is one that backward() leaves a "
          "gradient with.")
      .def(
          "requires_grad_",
          [](const py::object& self, bool flag) {
            RaiseIfError(self.cast<Tensor>().SetRequiresGrad(flag));
            return self;
          },
          py::arg("requires_grad") = true,
          "Makes it a leaf with a gradient, or without one. RuntimeError for False if it is made "
          "of such leaves.")
      .def_property_readonly("is_leaf", &Tensor::is_leaf,
                             "Whether it is made of nothing that requires a gradient.")
      .def_property_readonly(
          "grad_fn",
          [](const Tensor& x) -> py::object {
            if (x.is_leaf()) return py::none();
            return Package("tensord.autograd.hooks",
                           "GradFn")(x.session().OpName(x.state()) + "Backward");
          },
          "What its derivative goes through, for people to read: an object with name(); None for a "
          "leaf.")
      .def(
          "retain_grad", [](const Tensor& x) { RaiseIfError(x.RetainGrad()); },
          "backward() leaves a gradient with it though it is no leaf.")
      .def_property_readonly(
          "retains_grad", [](const Tensor& x) { return x.state()->retains_grad && !x.is_leaf(); },
          "Whether retain_grad() was called.")
      .def(
          "register_hook",
          [](const py::object& self, const py::function& hook) {
            return Package("tensord.autograd.hooks", "register_hook")(self, hook);
          },
          py::arg("hook"),
          "hook(gradient) whenever the derivative by this version of the tensor is made; what it "
          "returns, if not None,\nis taken instead. The gradient is a tensor that has no data "
          "until "
          "it is read. Gives a handle with remove().")
      .def(
          "register_post_accumulate_grad_hook",
          [](const py::object& self, const py::function& hook) {
            return Package("tensord.autograd.hooks", "register_post_accumulate_grad_hook")(self,
                                                                                           hook);
          },
          py::arg("hook"), "hook(tensor) after backward() has added to the grad of this leaf.")
      .def_property(
          "data",
          [](const py::object& self) { return Package("tensord.autograd.data", "data_of")(self); },
          [](const py::object& self, const py::object& value) {
            Package("tensord.autograd.data", "set_data")(self, value);
          },
          "The tensor without its history, sharing its memory: to write to it, also where it is a "
          "leaf that requires a\ngradient. What is assigned to it, of the same shape and dtype, "
          "becomes the tensor's data. Called, as data(), it is\na memoryview, of bfloat16 and "
          "8-bit floats as float32.")
      .def_property("grad", &Tensor::grad, &SetGrad,
                    "What backward() left: a tensor of the same shape and dtype, or None.")
      .def(
          "backward",
          [](const Tensor& x, const std::optional<Tensor>& gradient, py::handle, bool create_graph,
             const std::optional<std::vector<Tensor>>& inputs) {
            Backward(x, gradient, create_graph, inputs);
          },
          py::arg("gradient") = py::none(), py::arg("retain_graph") = py::none(),
          py::arg("create_graph") = false, py::arg("inputs") = py::none(),
          "Adds d self / d t to t.grad for every tensor with requires_grad that self depends on, "
          "or "
          "for\n`inputs` only. Gradients can be differentiated again with create_graph. What is "
          "computed is not used up:\nretain_graph changes nothing.")
      .def("gradient", &Gradient, py::kw_only(), py::arg("gradient") = py::none(),
           "d self / d target for each target, zeros where there is no influence. It can be "
           "differentiated again.");
}

void BindGradient(py::module_& module) {
  module.def("_checkpoint", &CheckpointOf, py::arg("results"), py::arg("arguments"));
  module.def(
      "_stand_in", [](const Tensor& like) { return Checked(Lift(StandIn, like)); },
      py::arg("like"));
  module.def("_custom_gradient", &CustomGradientOf, py::arg("value"), py::arg("inputs"),
             py::arg("stand_in"), py::arg("gradients"));
  module.def(
      "_numerical_gradient",
      [](const Tensor& x, int64_t dim, double spacing, const std::optional<Tensor>& points,
         int64_t edge_order) {
        return WithOptional(x, {points}, [&](const Expr& e, const auto& given) {
          return NumericalGradient(
              e, dim, {.spacing = spacing, .points = given[0], .edge_order = edge_order});
        });
      },
      py::arg("x"), py::arg("dim"), py::arg("spacing"), py::arg("points"), py::arg("edge_order"));
  module.def("_hooks", &HooksOf, py::arg("x"));
  module.def("_set_hooks", &SetHooks, py::arg("x"), py::arg("hooks"));
  module.def("_gradient_targets", &TargetsOf, py::arg("loss"));
  module.def("_gradients", &GradientsOf, py::arg("loss"), py::arg("targets"), py::arg("seed"),
             py::arg("given"));
  module.def(
      "_on_the_way",
      [](const Tensor& loss, bool with_hooks) {
        return AllChecked(loss.session().ValuesOnTheWay(loss.state(), with_hooks));
      },
      py::arg("loss"), py::arg("with_hooks"));
  // Equal for tensors of one version.
  module.def(
      "_version",
      [](const Tensor& x) { return reinterpret_cast<uintptr_t>(x.state()->value.get()); },
      py::arg("x"));
  module.def(
      "_made_at", [](const Tensor& x) { return x.session().MadeAt(x.state()); }, py::arg("x"));
  module.def(
      "_op_name", [](const Tensor& x) { return x.session().OpName(x.state()); }, py::arg("x"));
  module.def("_set_recorder", &SetRecorder, py::arg("recorder"));
  module.def(
      "_independent",
      [](const Tensor& x) { return Checked(Tensor(x.session().Independent(x.state()))); },
      py::arg("x"));
  module.def("_reaches", &Reaches, py::arg("x"), py::arg("other"));
  module.def("_depends_on", &DependsOn, py::arg("x"), py::arg("tensors"));
  module.def(
      "_substituted",
      [](const std::vector<Tensor>& results, const std::vector<Tensor>& from,
         const std::vector<Tensor>& to) {
        if (results.empty()) return std::vector<Tensor>();
        return AllChecked(
            results[0].session().Substituted(StatesOf(results), StatesOf(from), StatesOf(to)));
      },
      py::arg("results"), py::arg("old"), py::arg("new"));
  module.def("_example", &ExampleOf, py::arg("batch"));
  module.def(
      "_batched",
      [](const std::vector<Tensor>& results, const std::vector<Tensor>& examples,
         const std::vector<Tensor>& batches, int64_t size) {
        if (results.empty()) return std::vector<Tensor>();
        return AllChecked(results[0].session().Batched(StatesOf(results), StatesOf(examples),
                                                       StatesOf(batches), size));
      },
      py::arg("results"), py::arg("examples"), py::arg("batches"), py::arg("count"));
  module.def(
      "_begin_mapped",
      [](const Tensor& like, const std::string& randomness) {
        like.session().BeginMapped(randomness == "different" ? client::Randomness::kDifferent
                                   : randomness == "same"    ? client::Randomness::kSame
                                                             : client::Randomness::kError);
      },
      py::arg("like"), py::arg("randomness"));
  // For each generator that was drawn from, if examples have numbers of their own: what stands for
  // an example's counter, and those of all.
  module.def(
      "_end_mapped",
      [](const Tensor& like, int64_t size) {
        std::vector<std::pair<Tensor, Tensor>> counters;
        for (auto& [one, all] : ValueOrRaise(like.session().EndMapped(size))) {
          counters.emplace_back(Tensor(std::move(one)), Tensor(std::move(all)));
        }
        return counters;
      },
      py::arg("like"), py::arg("count"));
  module.def("_set_grad_enabled", &client::SetGradEnabled, py::arg("enabled"),
             "Whether what is computed from now on has gradients; returns what was set before.");
  module.def("is_grad_enabled", &client::GradEnabled, "Whether what is computed has gradients.");
}

}  // namespace tensord::python
