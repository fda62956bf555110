// Whether the accesses of a linear program stay within their buffers, by arithmetic: the index as a
// sum of coefficient times atom, the intervals of the atoms, and what the gate of the access says.
// Sound, not complete: what it proves is so; what it can't prove may be so.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "core/ir/affine.h"
#include "core/ir/linear.h"

namespace tensord {

// The Loads and Stores that are not proven to stay within their buffers, in order.
std::vector<const Node*> UnprovenAccesses(const LinearProgram& program);

// One lane of an access as arithmetic: while `reachable`, and with all of `not_positive` <= 0, the
// index is wanted in [0, elements). Atoms are Variables with sound bounds.
struct AccessClaim {
  Affine index;
  std::vector<Affine> not_positive;
  bool reachable = true;
  int64_t elements = 0;
};

// Reads the accesses of one linear program into claims. Not thread-safe.
class AccessReader {
 public:
  explicit AccessReader(const LinearProgram& program) : program_(program) {}

  static int64_t Lanes(const Node* access);
  AccessClaim Claim(const Node* access, int64_t lane);
  // What an atom is made from: FloorDiv, FloorMod, Max or Min of two sums, or a Range that counts
  // below the sum `a`. Null: nothing known.
  struct Definition {
    Op op;
    Affine a, b;
  };
  const Definition* DefinitionOf(const Node* atom) const;

 private:
  Affine Value(const Node* node, int64_t lane);
  const Node* Atom(const Node* node, int64_t lane);
  bool Include(const Node* gate, int64_t lane, bool negated, std::vector<Affine>& not_positive);
  void IncludeComparison(const Node* comparison, int64_t lane, bool negated,
                         std::vector<Affine>& not_positive);

  struct Place {  // what a Load reads
    const Node* param;
    Affine index;
    const Node* atom;
  };

  const LinearProgram& program_;
  Graph graph_;                                                              // of the atoms
  absl::flat_hash_map<std::pair<const Node*, int64_t>, const Node*> atoms_;  // by node and lane
  absl::flat_hash_map<const Node*, Definition> definitions_;                 // by atom
  std::vector<Place> loads_;
};

// Whether the claim holds, by eliminating one atom after the other.
bool Proves(const AccessReader& reader, const AccessClaim& claim);

}  // namespace tensord
