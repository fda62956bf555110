// Index arithmetic in normal form: a sum of coefficient * atom plus a constant, over the integers.
//
// Every node of dtype index that Graph makes is in this form: terms ordered by atom id, no two
// terms with one atom, an atom being anything that isn't a sum or a multiple (a range, a variable,
// a floor division or modulo that doesn't simplify, a product of such, a cast). So equal index
// expressions are mostly equal pointers, and division, comparison and stride questions cost
// O(terms).
#pragma once

#include <absl/container/inlined_vector.h>

#include <cstdint>
#include <utility>

#include "core/ir/graph.h"

namespace tensord {

struct Affine {
  struct Term {
    const Node* atom;
    int64_t coefficient;  // never 0
  };
  absl::InlinedVector<Term, 6> terms;  // by atom id
  int64_t constant = 0;

  bool IsConstant() const { return terms.empty(); }
  // Sound bounds of the value; saturate at the limits of int64.
  int64_t lo() const;
  int64_t hi() const;
  // The coefficient of that atom; 0 if it does not occur.
  int64_t CoefficientOf(const Node* atom) const;
  // The greatest common divisor of the coefficients, without the constant; 0 if there are none.
  int64_t Gcd() const;

  void Add(const Affine& other, int64_t factor = 1);
  void AddTerm(const Node* atom, int64_t coefficient);
  void Scale(int64_t factor);
};

// Reads a node of dtype index.
Affine ToAffine(const Node* node);
// The node in normal form.
const Node* FromAffine(Graph& graph, const Affine& affine);

// A product in normal form: a number times factors in the order of their ids.
struct Product {
  int64_t constant = 1;
  absl::InlinedVector<const Node*, 4> factors;

  void Multiply(Graph& graph, const Node* node);
};
const Node* FromProduct(Graph& graph, const Product& product);

// What Graph asks when it makes an op over indices: Add ... FloorMod, CmpLt, CmpEq, CmpNe. Null:
// the op is to be made as it stands.
const Node* SimplifyIndexOp(Graph& graph, Op op, const Node* a, const Node* b);

}  // namespace tensord
