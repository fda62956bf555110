// Tensor: other spellings of what the other files bind, from tables: names, keywords, and methods
// in place. So a binding says each thing once, by PyTorch's word.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "client/cc/ops.h"
#include "client/python/bind.h"
#include "client/python/parts.h"
#include "core/base/status.h"
#include "core/tensor/elementwise.h"

namespace tensord::python {
namespace {

struct Spelling {
  const char* other;
  const char* name;
};

// Methods by another name.
constexpr Spelling kNames[] = {
    {"absolute", "abs"},
    {"arccos", "acos"},
    {"arccosh", "acosh"},
    {"arcsin", "asin"},
    {"arcsinh", "asinh"},
    {"arctan", "atan"},
    {"arctan2", "atan2"},
    {"arctanh", "atanh"},
    {"binary_crossentropy_logits", "binary_cross_entropy_with_logits"},
    {"clip", "clamp"},
    {"conj", "positive"},
    {"conj_physical", "positive"},
    {"divide", "div"},
    {"fix", "trunc"},
    {"greater", "gt"},
    {"greater_equal", "ge"},
    {"less", "lt"},
    {"less_equal", "le"},
    {"log_sigmoid", "logsigmoid"},
    {"lshift", "bitwise_left_shift"},
    {"mod", "remainder"},
    {"multiply", "mul"},
    {"negative", "neg"},
    {"not_equal", "ne"},
    {"rshift", "bitwise_right_shift"},
    {"split_with_sizes", "split"},
    {"subtract", "sub"},
    {"swish", "silu"},
    {"trapz", "trapezoid"},
};

// Keywords by another name, for every method that has the second and lacks the first.
constexpr Spelling kKeywords[] = {
    {"axis", "dim"},
    {"axes", "dims"},
    {"dims", "dim"},
    {"dim", "dims"},
    {"keepdims", "keepdim"},
    {"max_", "max"},
    {"min_", "min"},
    {"neg_slope", "negative_slope"},
    {"sizes", "split_size_or_sections"},
    {"dim", "dimension"},
    {"sorted_", "sorted"},
    {"ddof", "correction"},
    {"x", "other"},
    {"y", "other"},
    {"Y", "target"},
};

// Keywords that NumPy's functions hand on to a method though nobody gave them: None is as absent.
constexpr const char* kAbsent[] = {"dtype", "out"};

// Methods that PyTorch has in place too: `name_` assigns what `name` gives.
constexpr const char* kInPlace[] = {
    // clang-format off
    "abs", "acos", "acosh", "add", "addbmm", "addcdiv", "addcmul", "addmm", "addmv", "addr", "asin",
    "asinh", "atan", "atan2", "atanh", "baddbmm", "bitwise_and", "bitwise_left_shift",
    "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "ceil", "celu", "clamp",
    "clamp_max", "clamp_min", "copysign", "cos", "cosh", "cumprod", "cumsum", "deg2rad", "digamma",
    "div", "elu", "eq", "erf", "erfc", "erfinv", "exp", "exp2", "expm1", "float_power", "floor",
    "floor_divide", "fmod", "frac", "gcd", "ge", "gt", "hardsigmoid", "hardswish", "hardtanh", "heaviside",
    "hypot", "i0", "igamma", "igammac", "index_add", "index_copy", "index_fill", "index_put",
    "index_reduce", "lcm", "ldexp", "le", "leaky_relu", "lerp", "lgamma", "log", "log10", "log1p", "log2",
    "logical_and", "logical_not", "logical_or", "logical_xor", "logit", "lt", "masked_fill",
    "masked_scatter", "mish", "mul", "mvlgamma", "nan_to_num", "ne", "neg", "nextafter", "polygamma",
    "pow", "put", "rad2deg", "reciprocal", "relu", "relu6", "remainder", "renorm", "round", "rrelu",
    "rsqrt", "scatter", "scatter_add", "scatter_reduce", "selu", "sgn", "sigmoid", "sign", "silu",
    "sin", "sinc", "sinh", "softplus", "sqrt", "square", "sub", "tan", "tanh", "threshold", "tril",
    "triu", "true_divide", "trunc", "xlogy",
    // clang-format on
};

// Those that change the shape, or what gradients see, and move nothing: `name_` makes the Python
// object what `name` gives, a view of the same data.
constexpr const char* kRebinding[] = {"detach", "squeeze",   "swapaxes", "swapdims",
                                      "t",      "transpose", "unsqueeze"};

// The text that pybind11 made of a method's signature and our words. (Of a method that was bound
// more than once it has all signatures.)
std::string DocOf(py::handle method) {
  const py::object doc = method.attr("__doc__");
  return doc.is_none() ? "" : doc.cast<std::string>();
}

// Whether the method has a parameter of that name.
bool Takes(const std::string& doc, const char* name) {
  for (const char* before : {"(", ", "}) {
    if (doc.find(before + std::string(name) + ": ") != std::string::npos) return true;
  }
  return false;
}

// Sets a method's text, which pybind11 keeps in the definition that CPython reads.
void SetDoc(py::handle method, const std::string& doc) {
  const py::handle function = py::detail::get_function(method);
  PyMethodDef* definition = reinterpret_cast<PyCFunctionObject*>(function.ptr())->m_ml;
  std::free(const_cast<char*>(definition->ml_doc));
  definition->ml_doc = strdup(doc.c_str());
}

// Whether it computes tensors: then `out` may say which ones they become.
bool GivesTensors(const std::string& name, const std::string& doc) {
  if (name[0] == '_' || name.back() == '_') return false;
  for (const char* result : {") -> _tensord.Tensor", ") -> tuple", ") -> Tuple"}) {
    if (doc.find(result) != std::string::npos) return true;
  }
  return false;
}

// A second form of the method, for calls that the first cannot take, which calls the first with
// keywords in its own words, and without `out`. What needs no translation costs nothing so.
void AddKeywords(py::class_<Tensor>& tensor, const std::string& name, py::handle method) {
  const std::string doc = DocOf(method);
  std::vector<Spelling> keywords;
  for (const Spelling& keyword : kKeywords) {
    if (Takes(doc, keyword.name) && !Takes(doc, keyword.other)) keywords.push_back(keyword);
  }
  const bool takes_out = GivesTensors(name, doc);
  if (keywords.empty() && !takes_out) return;
  std::vector<std::string> absent;
  for (const char* word : kAbsent) {
    if (takes_out && !Takes(doc, word)) absent.push_back(word);
  }
  tensor.def(name.c_str(),
             [name, keywords, absent](const py::object& self, const py::args& arguments,
                                      const py::kwargs& given) -> py::object {
               py::dict translated;
               py::object out = py::none();
               bool changed = false;
               for (const auto& [key, value] : given) {
                 py::str word = py::reinterpret_borrow<py::str>(key);
                 const bool is_absent =
                     std::find(absent.begin(), absent.end(), std::string(word)) != absent.end();
                 if (is_absent && (value.is_none() || std::string(word) == "out")) {
                   out =
                       std::string(word) == "out" ? py::reinterpret_borrow<py::object>(value) : out;
                   changed = true;
                   continue;
                 }
                 for (const Spelling& keyword : keywords) {
                   if (std::string(word) != keyword.other) continue;
                   word = py::str(keyword.name);
                   changed = true;
                   break;
                 }
                 if (translated.contains(word)) {
                   throw py::type_error(name + "() got two values for '" + std::string(word) + "'");
                 }
                 translated[word] = value;
               }
               if (!changed) throw py::reference_cast_error();  // pybind11 then says what is taken
               // Of the class: the receiver may be a list of tensors, which a function takes first.
               const py::object method = py::type::of<Tensor>().attr(name.c_str());
               const py::object results = method(self, *arguments, **translated);
               return out.is_none() ? results : Into(out, results, name);
             });
  SetDoc(tensor.attr(name.c_str()), doc);
}

// name_(...): the tensor becomes name(...), in its own memory.
void AddInPlace(py::class_<Tensor>& tensor, const std::string& name) {
  std::string doc = DocOf(tensor.attr(name.c_str()));
  const size_t end = doc.find('\n');
  const std::string signature = doc.substr(name.size(), end - name.size());
  const std::string in_place = name + "_";
  tensor.def(in_place.c_str(),
             [name](const py::object& self, const py::args& arguments, const py::kwargs& keywords) {
               const Tensor value = self.attr(name.c_str())(*arguments, **keywords).cast<Tensor>();
               AssignInPlace(self.cast<Tensor>(), value, name + "_");
               return self;
             });
  SetDoc(tensor.attr(in_place.c_str()), in_place + signature + "\n\nThe tensor becomes what " +
                                            name +
                                            "() gives, which must have its dtype and shape.");
}

// The object becomes `result`, another tensor; `hint` says what to write where it can't.
void Become(Tensor& x, const Tensor& result, const std::string& name, const std::string& hint) {
  if (x.requires_grad() && name != "detach_") {
    Raise(InvalidArgument("{}: the tensor requires a gradient, which has its shape; {} instead",
                          name, hint));
  }
  if (x.session().IsTracing() && !x.session().IsOwnOfTrace(x.state())) {
    Raise(FailedPrecondition(
        "{}: a captured function runs again with data only, and this tensor is from outside; {} "
        "instead",
        name, hint));
  }
  x = result;
}

// name_(...): the object becomes name(...).
void AddRebinding(py::class_<Tensor>& tensor, const std::string& name) {
  const std::string doc = DocOf(tensor.attr(name.c_str()));
  const std::string in_place = name + "_";
  tensor.def(in_place.c_str(),
             [name](const py::object& self, const py::args& arguments, const py::kwargs& keywords) {
               Tensor& x = self.cast<Tensor&>();
               const Tensor result = self.attr(name.c_str())(*arguments, **keywords).cast<Tensor>();
               Become(x, result, name + "_", fmt::format("write t = t.{}(...)", name));
               return self;
             });
  const size_t end = doc.find('\n');
  SetDoc(
      tensor.attr(in_place.c_str()),
      in_place + doc.substr(name.size(), end - name.size()) +
          "\n\nThis Python object becomes what " + name +
          "() gives, a view of the same data; other names of the tensor\nkeep what they had, "
          "there being no strides to change. hash() becomes another. ValueError if it requires a\n"
          "gradient (but for detach_), RuntimeError for one from outside of a captured function.");
}

// 0 bool, 1 integer, 2 float.
int KindOf(DType dtype) { return IsFloat(dtype) ? 2 : dtype == DType::kBool ? 0 : 1; }

}  // namespace

void AssignInPlace(const Tensor& target, Tensor value, const std::string& name) {
  // As in PyTorch, where comparisons in place give 0 and 1.
  if (value.dtype() == DType::kBool) value = Checked(Cast(value, target.dtype()));
  if (value.dtype() != target.dtype()) {
    Raise(InvalidArgument("{}: would make {} of {}; write t = ... instead", name,
                          Name(value.dtype()), Name(target.dtype())));
  }
  if (value.shape() != target.shape()) {
    Raise(InvalidArgument("{}: would make shape {} of {}; write t = ... instead", name,
                          client::TextOf(value.shape()), client::TextOf(target.shape())));
  }
  RaiseIfError(target.WriteInPlace(value));
}

py::object Into(const py::object& out, const py::object& results, const std::string& name) {
  if (py::isinstance<Tensor>(results) && py::isinstance<Tensor>(out)) {
    const Tensor target = out.cast<Tensor>();
    Tensor value = results.cast<Tensor>();
    if (KindOf(value.dtype()) > KindOf(target.dtype())) {
      Raise(InvalidArgument("{}: the result is {}, out is {}, which cannot hold it", name,
                            Name(value.dtype()), Name(target.dtype())));
    }
    AssignInPlace(target, Checked(Cast(value, target.dtype())), name + ": out");
    return out;
  }
  if (!py::isinstance<py::tuple>(results) || py::isinstance<Tensor>(out) ||
      !py::isinstance<py::sequence>(out) || py::len(out) != py::len(results)) {
    throw py::type_error(name + "(): out is one tensor for each result");
  }
  const py::sequence targets(out), values(results);
  for (size_t i = 0; i < values.size(); ++i) Into(targets[i], values[i], name);
  return Named(name.c_str(), py::tuple(targets));
}

void BindSpellings(py::class_<Tensor>& tensor) {
  const py::dict members(tensor.attr("__dict__"));
  for (const auto& [key, member] : members) {
    if (!PyInstanceMethod_Check(member.ptr())) continue;
    const std::string name = py::str(key);
    AddKeywords(tensor, name, member);
  }
  for (const Spelling& spelling : kNames) {
    if (py::hasattr(tensor, spelling.name)) {
      tensor.attr(spelling.other) = tensor.attr(spelling.name);
    }
  }
  for (const char* name : kInPlace) {
    if (py::hasattr(tensor, name)) AddInPlace(tensor, name);
  }
  for (const char* name : kRebinding) AddRebinding(tensor, name);
  tensor.def(
      "_become",
      [](const py::object& self, const Tensor& result, const std::string& name) {
        Become(self.cast<Tensor&>(), result, name, "write t = ...");
        return self;
      },
      py::arg("result"), py::arg("name"),
      "This Python object becomes another name of `result`; see squeeze_.");
  for (const Spelling& spelling : kNames) {
    const std::string name = std::string(spelling.name) + "_";
    if (py::hasattr(tensor, name.c_str())) {
      tensor.attr((std::string(spelling.other) + "_").c_str()) = tensor.attr(name.c_str());
    }
  }
}

}  // namespace tensord::python
