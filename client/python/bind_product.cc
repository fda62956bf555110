// Tensor: products of matrices and vectors.
#include "client/python/bind.h"
#include "client/python/operands.h"
#include "core/base/status.h"
#include "core/tensor/product.h"

namespace tensord::python {
namespace {

Tensor MatMulOf(const Tensor& x, py::handle other, bool reverse, py::handle dtype) {
  const Tensor y = ToTensor(other);
  const std::optional<DType> type = OptionalDType(dtype);
  return Checked(
      Lift([&](const Expr& a,
               const Expr& b) { return reverse ? MatMul(b, a, type) : MatMul(a, b, type); },
           x, y));
}

using Product = Expr (*)(const Expr&, const Expr&);
auto BindPair(Product product) {
  return [product](const Tensor& a, py::handle b) {
    return Checked(
        Lift([product](const Expr& x, const Expr& y) { return product(x, y); }, a, ToTensor(b)));
  };
}

using ScaledProduct = Expr (*)(const Expr&, const Expr&, const Expr&, const AddScale&);
auto BindScaled(ScaledProduct product) {
  return [product](const Tensor& input, const Tensor& a, const Tensor& b, py::handle beta,
                   py::handle alpha) {
    const std::optional<Number> first = AsNumber(beta), second = AsNumber(alpha);
    if (!first || !second) Raise(InvalidArgument("addmm: beta and alpha are numbers"));
    return Checked(
        Lift([&](const Expr& x, const Expr& y,
                 const Expr& z) { return product(x, y, z, {.beta = *first, .alpha = *second}); },
             input, a, b));
  };
}

Tensor EinsumOf(const std::string& formula, const std::vector<Tensor>& operands, py::handle dtype) {
  if (operands.empty()) Raise(InvalidArgument("einsum: '{}' needs an operand", formula));
  const std::optional<DType> type = OptionalDType(dtype);
  return LiftMany(operands, 1, [&](absl::Span<const Expr> e) {
    return std::vector<Expr>{Einsum(formula, e, type)};
  })[0];
}

Tensor TensorDotOf(const Tensor& a, const Tensor& b, py::handle dims) {
  Ints left, right;
  if (PyIndex_Check(dims.ptr())) {
    const int64_t count = ParseInts(dims)[0];
    if (count < 0 || count > a.rank() || count > b.rank()) {
      Raise(InvalidArgument("tensordot: {} axes of {} and {}", count, client::TextOf(a.shape()),
                            client::TextOf(b.shape())));
    }
    for (int64_t i = 0; i < count; ++i) {
      left.push_back(a.rank() - count + i);
      right.push_back(i);
    }
  } else {
    const auto pair = dims.cast<std::vector<py::object>>();
    if (pair.size() != 2) {
      Raise(InvalidArgument("tensordot: dims is a number or two lists, one for each operand"));
    }
    left = ParseInts(pair[0]);
    right = ParseInts(pair[1]);
  }
  return Checked(
      Lift([&](const Expr& x, const Expr& y) { return TensorDot(x, y, left, right); }, a, b));
}

Tensor CrossOf(const Tensor& a, const Tensor& b, std::optional<int64_t> dim) {
  return Checked(Lift(
      [&](const Expr& x, const Expr& y) {
        int64_t axis = dim.value_or(-1);
        // Without an axis, the first with three elements.
        for (int64_t i = 0; !dim && i < x.rank(); ++i) {
          if (x.shape()[i] == 3) {
            axis = i;
            break;
          }
        }
        return Cross(x, y, axis);
      },
      a, b));
}

}  // namespace

void BindProduct(py::class_<Tensor>& tensor, py::module_& module) {
  tensor
      .def("matmul", &MatMulOf, py::arg("other"), py::arg("reverse") = false,
           py::arg("dtype") = py::none(),
           "self @ other, or other @ self with reverse: of vectors, matrices or batches of "
           "matrices that "
           "broadcast. Sums of floats below float32 are taken in float32; the result has the "
           "promoted dtype, or `dtype`. RuntimeError if inner sizes differ or an operand has no "
           "axes.")
      .def(
          "dot",
          [](const Tensor& x, py::handle w, py::handle dtype) {
            return MatMulOf(x, w, false, dtype);
          },
          py::arg("w"), py::arg("dtype") = py::none(), "The same as matmul, for any rank.")
      .def(
          "linear",
          [](const Tensor& x, const Tensor& weight, std::optional<Tensor> bias, py::handle dtype) {
            const std::optional<DType> type = OptionalDType(dtype);
            return WithOptional(x, {weight, bias}, [&](const Expr& e, const auto& given) {
              return LinearColumns(e, *given[0], given[1], type);
            });
          },
          py::arg("weight"), py::arg("bias") = py::none(), py::arg("dtype") = py::none(),
          "x @ weight + bias with a weight [in, out], other than in nn.functional.linear; a weight "
          "with one axis multiplies elementwise.")
      .def(
          "bilinear",
          [](const Tensor& x1, const Tensor& x2, const Tensor& weight, std::optional<Tensor> bias) {
            return WithOptional(x1, {x2, weight, bias}, [](const Expr& e, const auto& given) {
              return Bilinear(e, *given[0], *given[1], given[2]);
            });
          },
          py::arg("x2"), py::arg("weight"), py::arg("bias") = py::none(),
          "x1 [.., in1], x2 [.., in2] by weight [out, in1, in2] to [.., out].")
      .def_static(
          "einsum",
          [](const std::string& formula, const py::args& operands, py::handle dtype) {
            std::vector<Tensor> tensors;
            // One list of operands will do as well.
            if (operands.size() == 1 && !py::isinstance<Tensor>(operands[0])) {
              for (py::handle each : operands[0]) tensors.push_back(ToTensor(each));
            } else {
              for (py::handle each : operands) tensors.push_back(ToTensor(each));
            }
            return EinsumOf(formula, tensors, dtype);
          },
          py::arg("formula"), py::kw_only(), py::arg("dtype") = py::none(),
          "Einstein's summation: 'ij,jk->ik', with spaces, an ellipsis, labels twice in one "
          "operand "
          "(diagonals), and without '->' the labels that occur once, in alphabetical order.")
      .def("tensordot", &TensorDotOf, py::arg("other"), py::arg("dims") = 2,
           "Sums over the last `dims` axes of self and the first of other, or over the axes of two "
           "lists.")
      .def("cross", &CrossOf, py::arg("other"), py::arg("dim") = py::none(),
           "The cross product along an axis of three elements; without dim the first of that size.")
      .def(
          "vecdot",
          [](const Tensor& a, const Tensor& b, int64_t dim) {
            return Checked(
                Lift([dim](const Expr& x, const Expr& y) { return VecDot(x, y, dim); }, a, b));
          },
          py::arg("other"), py::arg("dim") = -1,
          "The sum of products along an axis; operands broadcast.")
      .def(
          "cdist",
          [](const Tensor& a, const Tensor& b, double p, const std::string&) {
            return Checked(
                Lift([p](const Expr& x, const Expr& y) { return CDist(x, y, p); }, a, b));
          },
          py::arg("other"), py::arg("p") = 2.0,
          py::arg("compute_mode") = "use_mm_for_euclid_dist_if_necessary",
          "Distances of points [.., n, size] and [.., m, size] by the p-norm, [.., n, m]. PyTorch's "
          "compute_mode\nchooses between ways that differ in rounding; here there is one, by "
          "differences.")
      .def("mm", BindPair(&Mm), py::arg("mat2"), "The product of two matrices.")
      .def("bmm", BindPair(&Bmm), py::arg("mat2"), "Products of two batches of matrices.")
      .def("mv", BindPair(&Mv), py::arg("vec"), "A matrix times a vector.")
      .def("inner", BindPair(&Inner), py::arg("other"),
           "Sums of products over the last axes of both.")
      .def("outer", BindPair(&Outer), py::arg("vec2"), "All products of two vectors, [n, m].")
      .def("ger", BindPair(&Outer), py::arg("vec2"), "The same as outer.")
      .def("vdot", BindPair(&VDot), py::arg("other"), "The sum of products of two vectors.")
      .def("kron", BindPair(&Kron), py::arg("other"), "The Kronecker product.");
#define TD_SCALED(name, Name, first, second, text)                                    \
  tensor.def(name, BindScaled(&Name), py::arg(first), py::arg(second), py::kw_only(), \
             py::arg("beta") = 1, py::arg("alpha") = 1,                               \
             "beta * self + alpha * " text "; with beta 0 self is ignored, even NaN.");
  TD_SCALED("addmm", AddMm, "mat1", "mat2", "mat1 @ mat2")
  TD_SCALED("addmv", AddMv, "mat", "vec", "mat @ vec")
  TD_SCALED("addr", AddR, "vec1", "vec2", "the outer product of vec1 and vec2")
  TD_SCALED("baddbmm", BaddBmm, "batch1", "batch2", "batch1 @ batch2")
  TD_SCALED("addbmm", AddBmm, "batch1", "batch2", "the sum of batch1 @ batch2 over the batch")
#undef TD_SCALED
  module.def(
      "multi_dot",
      [](const std::vector<Tensor>& tensors) {
        if (tensors.empty()) Raise(InvalidArgument("multi_dot: no operands"));
        return LiftMany(tensors, 1,
                        [](absl::Span<const Expr> e) { return std::vector<Expr>{MultiDot(e)}; })[0];
      },
      py::arg("tensors"),
      "The product of a chain of matrices, in the order of least work; the first and the last may "
      "be vectors.");
}

}  // namespace tensord::python
