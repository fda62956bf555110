// Random numbers as part of a graph, by Threefry-2x32-20: a function of a key and a counter.
//
//   Drawn batch = RandInt({key, counter}, {512}, 0, 60000, DType::kInt32);
//   // batch.counter is an output that overwrites the input `counter`: the next run draws on.
//
// Number i of a draw is made from the block at counter + i, so two draws of n give the same numbers
// as one of 2 n, and the numbers do not depend on how the graph is fused or split. They are not
// those of other libraries for the same seed.
#pragma once

#include <utility>

#include "core/tensor/expr.h"

namespace tensord {

struct RandomState {
  Expr key;      // uint32 [2]: the seed and, say, the number of the device
  Expr counter;  // uint32 [2]: low and high word
};

struct Drawn {
  Expr value;
  Expr counter;  // past what was used
};

// uint32.
Drawn RandomBits(const RandomState& state, Shape shape);
// In [0, 1), with as many random bits as the mantissa of the dtype has.
Drawn Uniform(const RandomState& state, Shape shape, DType dtype);
// Mean 0 and variance 1, by the Box-Muller transform.
Drawn Normal(const RandomState& state, Shape shape, DType dtype);
// In [low, high), at most 2^32 values. Each is off from equally likely by less than 2^-32.
Drawn RandInt(const RandomState& state, Shape shape, int64_t low, int64_t high, DType dtype);

// ---- distributions made of uniform numbers: pure functions of numbers in [0, 1)

// True with the probability at each element, in the dtype of p.
Expr BernoulliFrom(const Expr& p, const Expr& uniform);
// Of that rate: -log(1 - u) / rate.
Expr ExponentialFrom(const Expr& uniform, const Expr& rate);
// The number of trials up to the first success of probability p, from 1 on.
Expr GeometricFrom(const Expr& uniform, const Expr& p);
Expr CauchyFrom(const Expr& uniform, const Expr& median, const Expr& scale);
// Poisson's distribution, in the dtype of `rate`: below a rate of 10 by inversion, above by
// Hoermann's transformed rejection (PTRS, 1993). `uniform` [kPoissonDraws, rate's shape..]: with
// this many tries less than one element in 10^7 falls back to a rounded normal number.
inline constexpr int64_t kPoissonDraws = 17;
Expr PoissonFrom(const Expr& rate, const Expr& uniform);

// Threefry on uint64, elementwise: the words of x encrypted under those of `seed`, low ones first.
Expr Threefry(const Expr& x, const Expr& seed);

// The block function, elementwise on uint32: encrypts (c0, c1) under (k0, k1).
std::pair<Expr, Expr> Threefry2x32(const Expr& k0, const Expr& k1, const Expr& c0, const Expr& c1);

}  // namespace tensord
