// Random numbers: distributions, and tensors that are filled with them; hashes.
#include <algorithm>

#include "client/cc/ops.h"
#include "client/python/bind.h"
#include "client/python/operands.h"
#include "client/python/parts.h"
#include "core/base/status.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/hash.h"
#include "core/tensor/movement.h"
#include "core/tensor/random.h"

namespace tensord::python {
namespace {

DType DrawDType(DType dtype) {
  return dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
}

Tensor UniformLike(const Tensor& x) {
  return CurrentClient().Rand(x.shape(), DrawDType(x.dtype()));
}

void NeedsFloat(const char* what, const Tensor& x) {
  if (!IsFloat(x.dtype())) {
    Raise(InvalidArgument("{}: the tensor holds {}, it must be a float", what, Name(x.dtype())));
  }
}

// Fills x with a function of uniform numbers, and returns it.
template <typename Function>
py::object Fill(const py::object& self, Function function) {
  const Tensor x = self.cast<Tensor>();
  const DType dtype = x.dtype();
  const Tensor value =
      Checked(Lift([&](const Expr& u) { return Cast(function(u), dtype); }, UniformLike(x)));
  RaiseIfError(x.WriteInPlace(value));
  return self;
}

Expr Beside(const Expr& u, double value) { return Constant(u.graph(), value, u.dtype()); }

py::object NormalInPlace(const py::object& self, double mean, double std,
                         const std::optional<Generator>& generator) {
  const client::GeneratorScope scope(Own(generator));
  const Tensor x = self.cast<Tensor>();
  NeedsFloat("normal_", x);
  if (!(std >= 0)) Raise(InvalidArgument("normal_: std is {}, it must be at least 0", std));
  const DType dtype = x.dtype();
  const Tensor normal = CurrentClient().Randn(x.shape(), DrawDType(dtype));
  const Tensor value =
      Checked(Lift([&](const Expr& e) { return Cast(e * std + mean, dtype); }, normal));
  RaiseIfError(x.WriteInPlace(value));
  return self;
}

py::object RandomInPlace(const py::object& self, std::optional<int64_t> from,
                         std::optional<int64_t> to, const std::optional<Generator>& generator) {
  const client::GeneratorScope scope(Own(generator));
  const Tensor x = self.cast<Tensor>();
  const DType dtype = x.dtype();
  // Without a bound, up to what the dtype holds exactly, or 2^32 values.
  int64_t low = 0, high = 0;
  if (from && to) {
    low = *from;
    high = *to;
  } else if (from) {
    high = *from;
  } else {
    const int bits = dtype == DType::kFloat64    ? 32
                     : dtype == DType::kFloat32  ? 24
                     : dtype == DType::kFloat16  ? 11
                     : dtype == DType::kBFloat16 ? 8
                     : dtype == DType::kBool     ? 1
                     : IsUnsigned(dtype)         ? std::min(BitSize(dtype), 32)
                                                 : std::min(BitSize(dtype) - 1, 32);
    high = (int64_t{1} << bits) + (IsFloat(dtype) && bits < 32 ? 1 : 0);
  }
  const Tensor drawn = CurrentClient().RandInt(x.shape(), low, high, DType::kInt64);
  const Tensor value = Checked(Lift([&](const Expr& e) { return Cast(e, dtype); }, drawn));
  RaiseIfError(x.WriteInPlace(value));
  return self;
}

Tensor PoissonOf(const Tensor& rate, const std::optional<Generator>& generator) {
  const client::GeneratorScope scope(Own(generator));
  NeedsFloat("poisson", rate);
  Ints shape = {kPoissonDraws};
  shape.insert(shape.end(), rate.shape().begin(), rate.shape().end());
  return Checked(Lift([](const Expr& r, const Expr& u) { return PoissonFrom(r, u); }, rate,
                      CurrentClient().Rand(shape, DrawDType(rate.dtype()))));
}

}  // namespace

void BindRandom(py::class_<Tensor>& tensor) {
  tensor
      .def(
          "bernoulli",
          [](const Tensor& x, std::optional<double> p, const std::optional<Generator>& generator) {
            const client::GeneratorScope scope(Own(generator));
            NeedsFloat("bernoulli", x);
            if (p && !(*p >= 0 && *p <= 1)) {
              Raise(InvalidArgument("bernoulli: p is {}, not in [0, 1]", *p));
            }
            return Checked(
                Lift([p](const Expr& e,
                         const Expr& u) { return BernoulliFrom(p ? FullLike(e, *p) : e, u); },
                     x, UniformLike(x)));
          },
          py::arg("p") = py::none(), py::kw_only(), py::arg("generator") = py::none(),
          "1 with the probability at each element, or p for all, else 0, in the dtype of self.")
      .def("poisson", &PoissonOf, py::kw_only(), py::arg("generator") = py::none(),
           "Numbers of Poisson's distribution with the rate at each element, in the dtype of self.")
      .def(
          "uniform_",
          [](const py::object& self, double from, double to,
             const std::optional<Generator>& generator) {
            const client::GeneratorScope scope(Own(generator));
            NeedsFloat("uniform_", self.cast<Tensor>());
            if (!(from <= to)) Raise(InvalidArgument("uniform_: from {} to {}", from, to));
            return Fill(self, [=](const Expr& u) { return u * (to - from) + from; });
          },
          py::arg("low") = 0.0, py::arg("high") = 1.0, py::kw_only(),
          py::arg("generator") = py::none(),
          "Fills with uniform numbers in [low, high); returns self.")
      .def("normal_", &NormalInPlace, py::arg("mean") = 0.0, py::arg("std") = 1.0, py::kw_only(),
           py::arg("generator") = py::none(), "Fills with normal numbers; returns self.")
      .def(
          "bernoulli_",
          [](const py::object& self, py::handle p, const std::optional<Generator>& generator) {
            const client::GeneratorScope scope(Own(generator));
            const Tensor x = self.cast<Tensor>();
            if (const std::optional<Number> number = AsNumber(p)) {
              const double probability = number->AsDouble();
              if (!(probability >= 0 && probability <= 1)) {
                Raise(InvalidArgument("bernoulli_: p is {}, not in [0, 1]", probability));
              }
              return Fill(self, [=](const Expr& u) { return Lt(u, probability); });
            }
            const Tensor value = Checked(Lift(
                [dtype = x.dtype()](const Expr& e, const Expr& u) {
                  return Cast(BroadcastTo(Lt(u, e), u.shape()), dtype);
                },
                ToTensor(p), UniformLike(x)));
            RaiseIfError(x.WriteInPlace(value));
            return self;
          },
          py::arg("p") = 0.5, py::kw_only(), py::arg("generator") = py::none(),
          "Fills with 1 with probability p, a number or a tensor that broadcasts, else 0; returns "
          "self.")
      .def(
          "exponential_",
          [](const py::object& self, double lambd, const std::optional<Generator>& generator) {
            const client::GeneratorScope scope(Own(generator));
            NeedsFloat("exponential_", self.cast<Tensor>());
            if (!(lambd > 0)) Raise(InvalidArgument("exponential_: the rate is {}", lambd));
            return Fill(self, [=](const Expr& u) { return ExponentialFrom(u, Beside(u, lambd)); });
          },
          py::arg("lambd") = 1.0, py::kw_only(), py::arg("generator") = py::none(),
          "Fills with numbers of that rate; returns self.")
      .def(
          "geometric_",
          [](const py::object& self, double p, const std::optional<Generator>& generator) {
            const client::GeneratorScope scope(Own(generator));
            if (!(p > 0 && p < 1)) Raise(InvalidArgument("geometric_: p is {}, not in (0, 1)", p));
            return Fill(self, [=](const Expr& u) { return GeometricFrom(u, Beside(u, p)); });
          },
          py::arg("p"), py::kw_only(), py::arg("generator") = py::none(),
          "Fills with numbers of trials up to a success of probability p; returns self.")
      .def(
          "cauchy_",
          [](const py::object& self, double median, double sigma,
             const std::optional<Generator>& generator) {
            const client::GeneratorScope scope(Own(generator));
            NeedsFloat("cauchy_", self.cast<Tensor>());
            return Fill(self, [=](const Expr& u) {
              return CauchyFrom(u, Beside(u, median), Beside(u, sigma));
            });
          },
          py::arg("median") = 0.0, py::arg("sigma") = 1.0, py::kw_only(),
          py::arg("generator") = py::none(),
          "Fills with numbers of Cauchy's distribution; returns self.")
      .def(
          "log_normal_",
          [](const py::object& self, double mean, double std,
             const std::optional<Generator>& generator) {
            const client::GeneratorScope scope(Own(generator));
            NormalInPlace(self, mean, std, generator);
            const Tensor x = self.cast<Tensor>();
            RaiseIfError(x.WriteInPlace(Exp(x)));
            return self;
          },
          py::arg("mean") = 1.0, py::arg("std") = 2.0, py::kw_only(),
          py::arg("generator") = py::none(),
          "Fills with exponentials of normal numbers; returns self.")
      .def("random_", &RandomInPlace, py::arg("low") = py::none(), py::arg("high") = py::none(),
           py::kw_only(), py::arg("generator") = py::none(),
           "Fills with whole numbers in [low, high), [0, low) with one bound, or what the dtype "
           "holds; returns self.")
      .def(
          "threefry",
          [](const Tensor& x, const Tensor& seed) {
            return Checked(
                Lift([](const Expr& e, const Expr& s) { return Threefry(e, s); }, x, seed));
          },
          py::arg("seed"),
          "Threefry-2x32 with 20 rounds on uint64: the words of self encrypted under those of "
          "seed.")
      .def(
          "keccak",
          [](const Tensor& x, py::handle cfg) {
            KeccakConfig config = {};
            if (py::isinstance<py::str>(cfg)) {
              const std::string name = cfg.cast<std::string>();
              const std::optional<KeccakConfig> known = KeccakFromName(name);
              if (!known) {
                Raise(InvalidArgument(
                    "keccak: 'sha3_224', 'sha3_256', 'shake_128' or (rate, suffix), not '{}'",
                    name));
              }
              config = *known;
            } else {
              const Ints pair = ParseInts(cfg);
              if (pair.size() != 2) Raise(InvalidArgument("keccak: cfg is (rate, suffix)"));
              config = {pair[0], pair[1]};
            }
            return Checked(Lift([&](const Expr& e) { return Keccak(e, config); }, x));
          },
          py::arg("cfg") = "sha3_256",
          "The hash of uint8 along the last axis: 'sha3_224', 'sha3_256', 'shake_128' (16 bytes) "
          "or "
          "(rate in bytes, suffix byte).")
      .def(
          "hash",
          [](const Tensor& x) {
            return Checked(Lift([](const Expr& e) { return TreeHash(e); }, x));
          },
          "A hash of 16 bytes of uint8 data: shake_128 over blocks of 4 KiB, and over their hashes "
          "in pieces of 1 MiB.")
      .def_static(
          "random_bits",
          [](const Tensor& key, const Tensor& counter, int64_t num) {
            return Checked(Lift(
                [num](const Expr& k, const Expr& c) {
                  return RandomBits({k, c}, {num}).value;
                },
                key, counter));
          },
          py::arg("key"), py::arg("counter"), py::arg("num"),
          "num random uint32 of key and counter, both uint32 [2].");
}

}  // namespace tensord::python
