// Tensor: other spellings of what the other files bind, from tables: names, keywords, and methods
// in place. So a binding says each thing once, by PyTorch's word.
#include <cstdlib>
#include <cstring>

#include "client/python/bind.h"
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
    {"axis", "dim"},         {"axes", "dims"}, {"dims", "dim"}, {"dim", "dims"},
    {"keepdims", "keepdim"}, {"max_", "max"},  {"min_", "min"}, {"neg_slope", "negative_slope"},
    {"sorted_", "sorted"},   {"x", "other"},   {"y", "other"},  {"Y", "target"},
};

// Methods that PyTorch has in place too: `name_` assigns what `name` gives.
constexpr const char* kInPlace[] = {
    // clang-format off
    "abs", "acos", "acosh", "add", "addbmm", "addcdiv", "addcmul", "addmm", "addmv", "addr", "asin",
    "asinh", "atan", "atan2", "atanh", "baddbmm", "bitwise_and", "bitwise_left_shift",
    "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "ceil", "celu", "clamp",
    "clamp_max", "clamp_min", "copysign", "cos", "cosh", "cumprod", "cumsum", "deg2rad", "digamma",
    "div", "elu", "erf", "erfc", "erfinv", "exp", "exp2", "expm1", "float_power", "floor",
    "floor_divide", "fmod", "frac", "gcd", "hardsigmoid", "hardswish", "hardtanh", "heaviside",
    "hypot", "i0", "igamma", "igammac", "index_add", "index_copy", "index_fill", "index_put",
    "index_reduce", "lcm", "ldexp", "leaky_relu", "lerp", "lgamma", "log", "log10", "log1p", "log2",
    "logical_and", "logical_not", "logical_or", "logical_xor", "logit", "masked_fill",
    "masked_scatter", "mish", "mul", "mvlgamma", "nan_to_num", "neg", "nextafter", "polygamma",
    "pow", "put", "rad2deg", "reciprocal", "relu", "relu6", "remainder", "renorm", "round", "rrelu",
    "rsqrt", "scatter", "scatter_add", "scatter_reduce", "selu", "sgn", "sigmoid", "sign", "silu",
    "sin", "sinc", "sinh", "softplus", "sqrt", "square", "sub", "tan", "tanh", "threshold", "tril",
    "triu", "true_divide", "trunc", "xlogy",
    // clang-format on
};

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

// A second form of the method, for calls that the first cannot take, which calls the first with
// keywords in its own words. What needs no translation costs nothing so.
void AddKeywords(py::class_<Tensor>& tensor, const std::string& name, py::handle method) {
  const std::string doc = DocOf(method);
  std::vector<Spelling> keywords;
  for (const Spelling& keyword : kKeywords) {
    if (Takes(doc, keyword.name) && !Takes(doc, keyword.other)) keywords.push_back(keyword);
  }
  if (keywords.empty()) return;
  tensor.def(name.c_str(),
             [name, keywords](const py::object& self, const py::args& arguments,
                              const py::kwargs& given) -> py::object {
               py::dict translated;
               bool changed = false;
               for (const auto& [key, value] : given) {
                 py::str word = py::reinterpret_borrow<py::str>(key);
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
               return self.attr(name.c_str())(*arguments, **translated);
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

}  // namespace

void AssignInPlace(const Tensor& target, const Tensor& value, const std::string& name) {
  if (value.dtype() != target.dtype()) {
    Raise(InvalidArgument("{}: would make {} of {}; write t = ... instead", name,
                          Name(value.dtype()), Name(target.dtype())));
  }
  if (value.shape() != target.shape()) {
    Raise(InvalidArgument("{}: would make shape {} of {}; write t = ... instead", name,
                          client::TextOf(value.shape()), client::TextOf(target.shape())));
  }
  RaiseIfError(target.Assign(value));
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
  for (const Spelling& spelling : kNames) {
    const std::string name = std::string(spelling.name) + "_";
    if (py::hasattr(tensor, name.c_str())) {
      tensor.attr((std::string(spelling.other) + "_").c_str()) = tensor.attr(name.c_str());
    }
  }
}

}  // namespace tensord::python
