// Linear algebra and Fourier transforms. The package gives them their places: tensord.linalg,
// tensord.fft.
#include "client/python/bind.h"
#include "client/python/operands.h"
#include "client/python/parts.h"
#include "core/base/status.h"
#include "core/tensor/fft.h"
#include "core/tensor/linalg.h"
#include "core/tensor/pad.h"

namespace tensord::python {
namespace {

using Unary = Expr (*)(const Expr&);
auto BindUnary(Unary function) {
  return [function](const Tensor& a) { return Checked(Lift(function, a)); };
}

using Exprs = absl::Span<const Expr>;
using Pair = std::tuple<Tensor, Tensor>;
using Triple = std::tuple<Tensor, Tensor, Tensor>;

template <typename Function>
Pair TwoOf(const std::vector<Tensor>& operands, Function function) {
  const std::vector<Tensor> made = LiftMany(operands, 2, function);
  return {made[0], made[1]};
}
template <typename Function>
Triple ThreeOf(const std::vector<Tensor>& operands, Function function) {
  const std::vector<Tensor> made = LiftMany(operands, 3, function);
  return {made[0], made[1], made[2]};
}

Pair QrOf(const Tensor& a, bool complete) {
  return TwoOf({a}, [complete](Exprs e) {
    const QrParts parts = Qr(e[0], complete ? kComplete : kReduced);
    return std::vector<Expr>{parts.q, parts.r};
  });
}

Triple SvdOf(const Tensor& a, bool full_matrices) {
  return ThreeOf({a}, [full_matrices](Exprs e) {
    const SvdParts parts = Svd(e[0], full_matrices ? kComplete : kReduced);
    return std::vector<Expr>{parts.u, parts.s, parts.vh};
  });
}

// Calls fn(a, cutoff). Bounds are numbers, or tensors of one for each matrix; of a symmetric matrix
// one triangle is read.
template <typename Function>
Tensor WithCutoff(const std::vector<Tensor>& given, py::handle atol, py::handle rtol,
                  bool hermitian, Function function) {
  std::vector<Tensor> operands = given;
  const auto add = [&](py::handle bound) -> std::optional<size_t> {
    if (bound.is_none()) return std::nullopt;
    operands.push_back(ToTensor(
        bound, py::isinstance<Tensor>(bound) ? std::nullopt : std::optional(DType::kFloat64)));
    return operands.size() - 1;
  };
  const std::optional<size_t> absolute = add(atol), relative = add(rtol);
  return LiftMany(operands, 1, [&](Exprs e) {
    Cutoff cutoff;
    if (absolute) cutoff.absolute = e[*absolute];
    if (relative) cutoff.relative = e[*relative];
    const Expr a = hermitian ? Symmetric(e[0]) : e[0];
    return std::vector<Expr>{function(a, e, cutoff)};
  })[0];
}

MatrixNormKind ParseNorm(const std::string& name) {
  const std::optional<MatrixNormKind> kind = MatrixNormFromName(name);
  if (!kind) {
    Raise(InvalidArgument(
        "matrix_norm: 'fro', 'nuc', inf, -inf, 1, -1, 2 or -2 are norms, '{}' is none", name));
  }
  return *kind;
}

FftNorm ParseFftNorm(const std::string& norm) {
  if (norm == "backward") return FftNorm::kBackward;
  if (norm == "ortho") return FftNorm::kOrtho;
  if (norm == "forward") return FftNorm::kForward;
  Raise(InvalidArgument("fft: norm is 'backward', 'ortho' or 'forward', not '{}'", norm));
}

using FftFunction = Expr (*)(const Expr&, const FftOptions&);
auto BindFft(FftFunction function) {
  return
      [function](const Tensor& x, std::optional<int64_t> n, int64_t dim, const std::string& norm) {
        const FftOptions options = {.size = n, .axis = dim, .norm = ParseFftNorm(norm)};
        return Checked(Lift([&](const Expr& e) { return function(e, options); }, x));
      };
}

void BindMethods(py::class_<Tensor>& tensor) {
  tensor
      .def(
          "qr", [](const Tensor& a) { return Named("qr", py::cast(QrOf(a, true))); },
          "(Q, R): q [.., m, m] orthogonal and r [.., m, n] upper triangular with q @ r = self, by "
          "Householder's reflections. Always complete; linalg.qr has the reduced form.")
      .def(
          "svd",
          [](const Tensor& a, bool full_matrices) {
            return Named("svd", py::cast(SvdOf(a, full_matrices)));
          },
          py::arg("full_matrices") = true,
          "(U, S, Vh): u, s, vh with u @ diag(s) @ vh = self and s descending, by one-sided Jacobi "
          "rotations; "
          "meant for small matrices (RuntimeError beyond the limit).")
      .def(
          "newton_schulz",
          [](const Tensor& a, int64_t steps, const std::vector<double>& params, double eps) {
            return Checked(
                Lift([&](const Expr& e) { return NewtonSchulz(e, steps, params, eps); }, a));
          },
          py::arg("steps"), py::arg("params"), py::arg("eps") = 1e-7,
          "Steps of x <- p0 x + p1 (x x^T) x + p2 (x x^T)^2 x + .. from self / |self|.")
      .def("det", BindUnary(&Det), "The determinant of each matrix.")
      .def("inverse", BindUnary(&Inverse),
           "The inverse of each matrix; infinities and NaN if singular.")
      .def("matrix_exp", BindUnary(&MatrixExp), "The exponential of each square matrix.")
      .def("trace", BindUnary(&Trace), "The sum of the diagonal of each matrix.")
      .def(
          "slogdet",
          [](const Tensor& a) {
            return Named("slogdet", py::cast(TwoOf({a}, [](Exprs e) {
                           const SignedLog parts = SlogDet(e[0]);
                           return std::vector<Expr>{parts.sign, parts.log};
                         })));
          },
          "(sign, logabsdet): the sign and the logarithm of the absolute value of each "
          "determinant.")
      .def(
          "cholesky",
          [](const Tensor& a, bool upper) {
            return Checked(Lift([=](const Expr& e) { return Cholesky(e, upper); }, a));
          },
          py::arg("upper") = false,
          "l with l @ l^T = self (u^T @ u with upper) of symmetric positive definite matrices; NaN "
          "for others.")
      .def(
          "cholesky_solve",
          [](const Tensor& b, const Tensor& factor, bool upper) {
            return Checked(
                Lift([=](const Expr& x, const Expr& f) { return CholeskySolve(x, f, upper); }, b,
                     factor));
          },
          py::arg("L"), py::arg("upper") = false,
          "x with a @ x = self, given the Cholesky factor of a.")
      .def(
          "cholesky_inverse",
          [](const Tensor& factor, bool upper) {
            return Checked(Lift([=](const Expr& f) { return CholeskyInverse(f, upper); }, factor));
          },
          py::arg("upper") = false, "The inverse of the matrix whose Cholesky factor this is.")
      .def(
          "matrix_power",
          [](const Tensor& a, int64_t n) {
            return Checked(Lift([n](const Expr& e) { return MatrixPower(e, n); }, a));
          },
          py::arg("n"), "n matrices multiplied; of the inverse if n is negative.")
      .def(
          "pinverse",
          [](const Tensor& a, py::handle rcond) {
            return WithCutoff({a}, py::none(), rcond, false,
                              [](const Expr& x, Exprs, const Cutoff& c) { return Pinv(x, c); });
          },
          py::arg("rcond") = py::none(), "The pseudo-inverse.")
      .def(
          "geqrf",
          [](const Tensor& a) {
            return Named("geqrf", py::cast(TwoOf({a}, [](Exprs e) {
                           const Reflections parts = Geqrf(e[0]);
                           return std::vector<Expr>{parts.a, parts.tau};
                         })));
          },
          "(a, tau) of q @ r = self: r, with the vectors of the reflections below its diagonal, "
          "and "
          "their factors [.., min(m, n)]. Without derivative; linalg.qr has one.")
      .def(
          "ormqr",
          [](const Tensor& a, const Tensor& tau, const Tensor& other, bool left, bool transpose) {
            return Checked(Lift(
                [=](const Expr& v, const Expr& t, const Expr& x) {
                  if (left || !x.ok() || x.rank() < 2) return Reflect({v, t}, x, transpose);
                  return Transpose(Reflect({v, t}, Transpose(x, -1, -2), !transpose), -1, -2);
                },
                a, tau, other));
          },
          py::arg("tau"), py::arg("other"), py::arg("left") = true, py::arg("transpose") = false,
          "q @ other, q^T @ other with transpose, or other @ q unless left; q [.., m, m] is the "
          "product of the reflections that geqrf gave.");
}

void BindFunctions(py::module_& module) {
  module.def("_linalg_qr", &QrOf, py::arg("a"), py::arg("complete"));
  module.def("_linalg_svdvals", BindUnary(&SvdVals), py::arg("a"));
  module.def("_linalg_eigvals", BindUnary(&EigVals), py::arg("a"));
  module.def(
      "_linalg_solve",
      [](const Tensor& a, const Tensor& b, bool left) {
        return Checked(
            Lift([left](const Expr& x, const Expr& y) { return Solve(x, y, left); }, a, b));
      },
      py::arg("a"), py::arg("b"), py::arg("left"));
  module.def(
      "_linalg_solve_triangular",
      [](const Tensor& a, const Tensor& b, bool upper, bool left, bool unit) {
        const TriangularOptions options = {.upper = upper, .left = left, .unit = unit};
        return Checked(Lift(
            [&](const Expr& x, const Expr& y) { return SolveTriangular(x, y, options); }, a, b));
      },
      py::arg("a"), py::arg("b"), py::arg("upper"), py::arg("left"), py::arg("unit"));
  module.def(
      "_linalg_lu",
      [](const Tensor& a) {
        return ThreeOf({a}, [](Exprs e) {
          const LuParts parts = Lu(e[0]);
          return std::vector<Expr>{parts.p, parts.l, parts.u};
        });
      },
      py::arg("a"));
  module.def(
      "_linalg_lu_factor",
      [](const Tensor& a) {
        return TwoOf({a}, [](Exprs e) {
          const LuFactors factors = LuFactor(e[0]);
          return std::vector<Expr>{factors.lu, factors.pivots};
        });
      },
      py::arg("a"));
  module.def(
      "_linalg_lu_unpack",
      [](const Tensor& lu, const Tensor& pivots) {
        return ThreeOf({lu, pivots}, [](Exprs e) {
          const LuParts parts = LuUnpack({e[0], e[1]});
          return std::vector<Expr>{parts.p, parts.l, parts.u};
        });
      },
      py::arg("lu"), py::arg("pivots"));
  module.def(
      "_linalg_lu_solve",
      [](const Tensor& lu, const Tensor& pivots, const Tensor& b, bool left, bool adjoint) {
        return Checked(Lift(
            [=](const Expr& x, const Expr& p, const Expr& y) {
              return LuSolve({x, p}, y, left, adjoint);
            },
            lu, pivots, b));
      },
      py::arg("lu"), py::arg("pivots"), py::arg("b"), py::arg("left"), py::arg("adjoint"));
  module.def(
      "_linalg_eigh",
      [](const Tensor& a, bool upper) {
        return TwoOf({a}, [upper](Exprs e) {
          const EighParts parts = Eigh(e[0], upper);
          return std::vector<Expr>{parts.values, parts.vectors};
        });
      },
      py::arg("a"), py::arg("upper"));
  module.def(
      "_linalg_pinv",
      [](const Tensor& a, py::handle atol, py::handle rtol, bool hermitian) {
        return WithCutoff({a}, atol, rtol, hermitian,
                          [](const Expr& x, Exprs, const Cutoff& c) { return Pinv(x, c); });
      },
      py::arg("a"), py::arg("atol"), py::arg("rtol"), py::arg("hermitian"));
  module.def(
      "_linalg_matrix_rank",
      [](const Tensor& a, py::handle atol, py::handle rtol, bool hermitian) {
        return WithCutoff({a}, atol, rtol, hermitian,
                          [](const Expr& x, Exprs, const Cutoff& c) { return MatrixRank(x, c); });
      },
      py::arg("a"), py::arg("atol"), py::arg("rtol"), py::arg("hermitian"));
  module.def(
      "_linalg_ldl_factor",
      [](const Tensor& a) {
        return TwoOf({a}, [](Exprs e) {
          const LdlFactors factors = LdlFactor(e[0]);
          return std::vector<Expr>{factors.ld, factors.pivots};
        });
      },
      py::arg("a"));
  module.def(
      "_linalg_ldl_info",
      [](const Tensor& ld, const Tensor& pivots) {
        return Checked(Lift(
            [](const Expr& x, const Expr& p) {
              return LdlInfo({x, p});
            },
            ld, pivots));
      },
      py::arg("ld"), py::arg("pivots"));
  module.def(
      "_linalg_ldl_solve",
      [](const Tensor& ld, const Tensor& pivots, const Tensor& b) {
        return Checked(Lift(
            [](const Expr& x, const Expr& p, const Expr& y) {
              return LdlSolve({x, p}, y);
            },
            ld, pivots, b));
      },
      py::arg("ld"), py::arg("pivots"), py::arg("b"));
  module.def("_linalg_lu_info", BindUnary(&LuInfo), py::arg("lu"));
  module.def("_linalg_cholesky_info", BindUnary(&CholeskyInfo), py::arg("factor"));
  module.def(
      "_linalg_householder_product",
      [](const Tensor& a, const Tensor& tau) {
        return Checked(Lift(
            [](const Expr& v, const Expr& t) {
              return HouseholderProduct({v, t});
            },
            a, tau));
      },
      py::arg("a"), py::arg("tau"));
  module.def(
      "_linalg_lstsq",
      [](const Tensor& a, const Tensor& b, py::handle rcond) {
        return WithCutoff(
            {a, b}, py::none(), rcond, false,
            [](const Expr& x, Exprs e, const Cutoff& c) { return Lstsq(x, e[1], c); });
      },
      py::arg("a"), py::arg("b"), py::arg("rcond"));
  module.def(
      "_linalg_matrix_norm",
      [](const Tensor& a, const std::string& ord, const Ints& dim, bool keepdim) {
        const MatrixNormKind kind = ParseNorm(ord);
        const Axes axes{absl::Span<const int64_t>(dim)};
        const Keep keep = keepdim ? kKeepDims : kDropDims;
        return Checked(Lift([&](const Expr& e) { return MatrixNorm(e, kind, axes, keep); }, a));
      },
      py::arg("a"), py::arg("ord"), py::arg("dim"), py::arg("keepdim"));
  module.def(
      "_linalg_cond",
      [](const Tensor& a, const std::string& ord) {
        const MatrixNormKind kind = ParseNorm(ord);
        return Checked(Lift([kind](const Expr& e) { return Cond(e, kind); }, a));
      },
      py::arg("a"), py::arg("ord"));
}

void BindSpectral(py::module_& module) {
#define TD_FFT(name, Name) \
  module.def(name, BindFft(&Name), py::arg("x"), py::arg("n"), py::arg("dim"), py::arg("norm"));
  TD_FFT("_fft", Fft)
  TD_FFT("_ifft", Ifft)
  TD_FFT("_rfft", Rfft)
  TD_FFT("_irfft", Irfft)
  TD_FFT("_hfft", Hfft)
  TD_FFT("_ihfft", Ihfft)
#undef TD_FFT
  module.def(
      "_fftfreq",
      [](int64_t n, double spacing, bool half, py::handle dtype) {
        const DType type = OptionalDType(dtype).value_or(DType::kFloat32);
        return Checked(CurrentClient().Make([&](Graph& graph) {
          return half ? RfftFreq(graph, n, spacing, type) : FftFreq(graph, n, spacing, type);
        }));
      },
      py::arg("n"), py::arg("spacing"), py::arg("half"), py::arg("dtype"));
  module.def(
      "_stft",
      [](const Tensor& x, int64_t size, int64_t hop, std::optional<Tensor> window, bool normalized,
         bool onesided, int64_t padding, const std::string& pad_mode) {
        const std::optional<PadMode> mode = PadModeFromName(pad_mode);
        if (!mode) Raise(InvalidArgument("stft: no way of padding is called '{}'", pad_mode));
        return WithOptional(x, {window}, [&](const Expr& e, const auto& given) {
          std::vector<PadAmount> amounts(e.rank());
          if (!amounts.empty()) amounts.back() = {padding, padding};
          return Stft(PadBy(e, amounts, *mode), {.size = size,
                                                 .hop = hop,
                                                 .window = given[0],
                                                 .normalized = normalized,
                                                 .onesided = onesided});
        });
      },
      py::arg("x"), py::arg("size"), py::arg("hop"), py::arg("window"), py::arg("normalized"),
      py::arg("onesided"), py::arg("padding"), py::arg("pad_mode"));
  module.def(
      "_istft",
      [](const Tensor& x, int64_t size, int64_t hop, std::optional<Tensor> window, bool normalized,
         bool onesided, int64_t begin, std::optional<int64_t> end) {
        return WithOptional(x, {window}, [&](const Expr& e, const auto& given) {
          const ShortFft options = {.size = size,
                                    .hop = hop,
                                    .window = given[0],
                                    .normalized = normalized,
                                    .onesided = onesided};
          return Istft(e, options, begin, end);
        });
      },
      py::arg("x"), py::arg("size"), py::arg("hop"), py::arg("window"), py::arg("normalized"),
      py::arg("onesided"), py::arg("begin"), py::arg("end"));
}

}  // namespace

void BindLinalg(py::class_<Tensor>& tensor, py::module_& module) {
  BindMethods(tensor);
  BindFunctions(module);
  BindSpectral(module);
}

}  // namespace tensord::python
