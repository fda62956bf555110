#include "core/codegen/tile.h"

#include <absl/algorithm/container.h>
#include <absl/container/flat_hash_set.h>

#include <algorithm>
#include <optional>

#include "core/codegen/peel.h"
#include "core/ir/affine.h"

namespace tensord {
namespace {

// Workgroups per core: enough to even out, few enough to cost nothing.
constexpr int64_t kGroupsPerCore = 8;
// Elementary operations below which a second core does not pay.
constexpr int64_t kMinParallelWork = 1 << 15;
// Accumulators of a reduction that is not a contraction: hides the latency of the adds.
constexpr int64_t kReduceUnroll = 4;
constexpr int64_t kMinLanes = 4;
// Vectors that a scan advances together: their steps don't wait for each other.
constexpr int64_t kScanVectors = 4;
// Results on each side of a contraction whose lanes run along the reduction.
constexpr int64_t kDotProductTile = 4;

constexpr auto kAccesses = OpBit(Op::kLoad) | OpBit(Op::kStore) | OpBit(Op::kModify);

int64_t LargestDivisor(int64_t size, int64_t limit) {
  for (int64_t d = std::min(size, limit); d > 1; --d) {
    if (size % d == 0) return d;
  }
  return 1;
}

int64_t PowerOfTwoBelow(int64_t size) {
  int64_t power = 1;
  while (power * 2 <= size) power *= 2;
  return power;
}

struct MemoryAccess {
  const Node* node;  // Load, Store or Modify
  Affine index;
  double times;  // evaluations
};

class Tiler {
 public:
  Tiler(LoopNest& nest, const Target& target)
      : nest_(nest),
        target_(target),
        numbers_(nest.sink),
        ordered_loops_(OrderedLoops(nest.sink)) {}

  void Run() {
    Analyze();
    if (!ordered_loops_.empty() || !TileContraction()) TileOther();
    TileRests();
    ChooseGrid();
  }

 private:
  struct Contraction {
    const Node* fold = nullptr;
    const Node* factors[2];
    double work = 0;
  };

  void Analyze();
  double TimesOf(const Node* node) const;
  std::optional<int64_t> StrideOf(const MemoryAccess& access, const Node* range) const;
  int64_t Footprint(const Node* root) const;
  bool IsUnitStride(const Node* root, const Node* range) const;
  double Contiguity(const Node* range) const;
  int64_t Lanes() const;

  Contraction FindContraction() const;
  void StreamFactor(const Node* fold, const Node* factor);
  bool AreNested(absl::Span<const Node* const> loops) const;
  bool TileContraction();
  bool TileDotProduct(int64_t lanes);
  int64_t TileRows(const std::vector<const Node*>& rows, int64_t target);
  void TileOther();
  const Node* MostContiguous(absl::Span<const Node* const> ranges) const;
  void TileFolds();
  std::vector<const Node*> TileFold(const Node* fold);
  void TileRests();
  void ChooseGrid();
  void DealOut(const Node* range, int64_t groups);

  // Replaces `range` by pieces, outermost first; pieces of size 1 vanish.
  struct Piece {
    int64_t size;
    RangeKind kind;
  };
  std::vector<const Node*> Split(const Node* range, const std::vector<Piece>& pieces);
  // Lanes of at most `lanes` along `range`, `vectors` of them in registers; peels what is over.
  void Vectorize(const Node* range, int64_t lanes, int64_t vectors);
  const Node* PeelTo(const Node* range, int64_t multiple);
  std::vector<const Node*> Blocks(const Node* range, int64_t size, RangeKind kind);

  LoopNest& nest_;
  const Target& target_;
  RangeNumbers numbers_;
  absl::flat_hash_set<const Node*> ordered_loops_;  // of the nest as it was: peeling renews them
  std::vector<MemoryAccess> accesses_;
  std::optional<FreeRanges> free_;
  std::vector<const Node*> rests_;  // of vector loops, to be tiled in turn
};

void Tiler::Analyze() {
  free_.emplace(nest_.sink);
  accesses_.clear();
  absl::flat_hash_map<const Node*, double> times;
  // A node inside a Fold is evaluated for the Fold's ranges too, which its own free ranges tell.
  for (const Node* node : TopologicalOrder({nest_.sink})) {
    if (!In(node->op, kAccesses)) continue;
    accesses_.push_back({node, ToAffine(node->src[1]), TimesOf(node)});
  }
}

double Tiler::TimesOf(const Node* node) const {
  double times = 1;
  for (const Node* range : free_->Of(node)) times *= static_cast<double>(range->range_size());
  return times;
}

std::optional<int64_t> Tiler::StrideOf(const MemoryAccess& access, const Node* range) const {
  for (const Affine::Term& term : access.index.terms) {
    if (term.atom != range && free_->Depends(term.atom, range)) return std::nullopt;
  }
  return access.index.CoefficientOf(range);
}

// Whether every access under `root` that moves with `range` moves by one element, and one does.
bool Tiler::IsUnitStride(const Node* root, const Node* range) const {
  absl::flat_hash_set<const Node*> below;
  for (const Node* node : TopologicalOrder({root})) below.insert(node);
  bool any = false;
  for (const MemoryAccess& access : accesses_) {
    if (!below.contains(access.node) || !free_->Depends(access.node->src[1], range)) continue;
    if (StrideOf(access, range) != 1) return false;
    any = true;
  }
  return any;
}

// Bytes that the loads under `root` read, over all ranges.
int64_t Tiler::Footprint(const Node* root) const {
  absl::flat_hash_set<const Node*> below;
  for (const Node* node : TopologicalOrder({root})) below.insert(node);
  double bytes = 0;
  for (const MemoryAccess& access : accesses_) {
    if (!below.contains(access.node)) continue;
    const double elements = static_cast<double>(access.node->src[0]->ints[1]);
    bytes += std::min(access.times, elements) * ItemSize(access.node->dtype);
  }
  return static_cast<int64_t>(bytes);
}

// How much lanes along `range` would gain: contiguous accesses count for it. Scattered ones are
// read one by one with lanes as without; where the index is no sum, it is computed for each lane
// besides.
double Tiler::Contiguity(const Node* range) const {
  double score = 0;
  for (const MemoryAccess& access : accesses_) {
    if (!free_->Depends(access.node, range)) continue;
    const std::optional<int64_t> stride = StrideOf(access, range);
    if (!stride) {
      score -= access.times * 0.6;
    } else if (*stride == 1) {
      score += access.times;
    } else if (*stride == 0) {
      score += access.times * 0.25;
    } else {
      score -= access.times * 0.2;
    }
  }
  return score;
}

// Lanes that fill a register with the widest type that the kernel computes with.
int64_t Tiler::Lanes() const {
  int width = 1;
  for (const Node* node : TopologicalOrder({nest_.sink})) {
    if (!In(node->op, ElementwiseOps()) && node->op != Op::kLoad && node->op != Op::kFold) continue;
    int size = ItemSize(node->dtype);
    if (IsFloat(node->dtype)) size = std::max(size, 4);  // narrow floats are computed in float32
    width = std::max(width, size);
  }
  return std::max<int64_t>(target_.vector_bytes / width, 1);
}

std::vector<const Node*> Tiler::Split(const Node* range, const std::vector<Piece>& pieces) {
  Graph& graph = nest_.graph;
  const Node* value = graph.Index(0);
  std::vector<const Node*> parts;
  for (const Piece& piece : pieces) {
    value = graph.Make(Op::kMul, {value, graph.Index(piece.size)});
    if (piece.size == 1) continue;
    parts.push_back(numbers_.Make(graph, piece.size, piece.kind));
    value = graph.Make(Op::kAdd, {value, parts.back()});
  }
  ReplaceRange(nest_, range, {value, parts});
  Analyze();
  return parts;
}

// Whole blocks of a loop whose end is not known, and a rest that stays as it is. Returns all of the
// new ranges.
std::vector<const Node*> Tiler::Blocks(const Node* range, int64_t size, RangeKind kind) {
  const Node* inner = numbers_.Make(nest_.graph, size, kind);
  const Peeled peeled = PeelBlocks(nest_, numbers_, range, inner);
  Analyze();
  std::vector<const Node*> parts = {peeled.main, inner};
  if (peeled.rest != nullptr) parts.push_back(peeled.rest);
  return parts;
}

const Node* Tiler::PeelTo(const Node* range, int64_t multiple) {
  const int64_t main = range->range_size() / multiple * multiple;
  if (main == range->range_size()) return range;
  const Peeled peeled = Peel(nest_, numbers_, range, main);
  rests_.push_back(peeled.rest);
  Analyze();
  return peeled.main;
}

void Tiler::Vectorize(const Node* range, int64_t lanes, int64_t vectors) {
  const RangeKind kind = range->range_kind();
  lanes = std::min(lanes, PowerOfTwoBelow(range->range_size()));
  if (lanes == 1) return;
  if (range->is_bounded()) {
    Blocks(range, lanes, RangeKind::kVector);
    return;
  }
  const Node* main = PeelTo(range, lanes);
  const int64_t blocks = main->range_size() / lanes;
  const int64_t unroll = LargestDivisor(blocks, vectors);
  Split(main, {{blocks / unroll, kind}, {unroll, RangeKind::kUnroll}, {lanes, RangeKind::kVector}});
}

Tiler::Contraction Tiler::FindContraction() const {
  Contraction best;
  for (const Node* node : TopologicalOrder({nest_.sink})) {
    if (node->op != Op::kFold || node->reduce_kind() != ReduceKind::kAdd) continue;
    const Node* product = node->src[0];
    if (product->op == Op::kWhere) product = product->src[1];
    if (product->op != Op::kMul || !IsFloat(product->dtype)) continue;
    const double work = TimesOf(node->src[0]);
    if (work <= best.work) continue;
    best = {node, {product->src[0], product->src[1]}, work};
  }
  return best;
}

// Register tiles over `rows`, the innermost first, until `target` results are in flight. Returns
// how many are.
int64_t Tiler::TileRows(const std::vector<const Node*>& rows, int64_t target) {
  int64_t tile = 1;
  const auto unroll = [&](const Node* row, int64_t size) {
    Split(row, {{row->range_size() / size, row->range_kind()}, {size, RangeKind::kUnroll}});
    tile *= size;
  };
  std::vector<const Node*> odd;
  for (size_t i = rows.size(); i-- > 0 && tile * 2 <= target;) {
    if (rows[i]->is_bounded()) {
      const int64_t size = std::min(target / tile, rows[i]->range_size());
      if (size < 2) continue;
      Blocks(rows[i], size, RangeKind::kUnroll);
      tile *= size;
      continue;
    }
    const int64_t limit = target / tile;
    const int64_t size = LargestDivisor(rows[i]->range_size(), limit);
    if (size > 1 && (size * 3 > limit || size == rows[i]->range_size() || rows.size() > 1)) {
      unroll(rows[i], size);
    } else {
      odd.push_back(rows[i]);
    }
  }
  // No good divisors: the size that leaves the smallest rest, which gets a tile of its own.
  for (const Node* row : odd) {
    const int64_t limit = target / tile;
    if (limit < 3 || row->range_size() <= limit) continue;
    int64_t size = limit;
    for (int64_t candidate = limit; candidate * 3 >= limit * 2; --candidate) {
      if (row->range_size() % candidate < row->range_size() % size) size = candidate;
    }
    const Peeled peeled = Peel(nest_, numbers_, row, row->range_size() / size * size);
    Split(peeled.rest, {{peeled.rest->range_size(), RangeKind::kUnroll}});
    unroll(peeled.main, size);
    break;
  }
  return tile;
}

// Orders the loops of a reduction so that `factor` is read as it lies in memory: far strides
// outside.
void Tiler::StreamFactor(const Node* fold, const Node* factor) {
  absl::flat_hash_set<const Node*> below;
  for (const Node* node : TopologicalOrder({factor})) below.insert(node);
  absl::flat_hash_map<const Node*, int64_t> stride;
  for (const MemoryAccess& access : accesses_) {
    if (!below.contains(access.node)) continue;
    for (const Node* range : fold->src.subspan(1)) {
      const int64_t own = std::abs(StrideOf(access, range).value_or(0));
      stride[range] = std::max(stride[range], own);
    }
  }
  std::vector<const Node*> ranges(fold->src.begin() + 1, fold->src.end());
  std::stable_sort(ranges.begin(), ranges.end(),
                   [&](const Node* a, const Node* b) { return stride[a] > stride[b]; });
  ReplacementMap reordered;
  for (const Node* node : TopologicalOrder({nest_.sink})) {
    if (node->op != Op::kFold || node->src.subspan(1) != fold->src.subspan(1)) continue;
    std::vector<const Node*> src = {node->src[0]};
    src.insert(src.end(), ranges.begin(), ranges.end());
    reordered[node] = {nest_.graph.Make(Op::kFold, src, node->ints)};
  }
  nest_.sink = Substitute(nest_.graph, {nest_.sink}, reordered)[0];
  Analyze();
}

// Whether in that order the loops of each store are the outermost ones. A store that needs fewer
// loops than others, as that of a bias beside a product, may forbid to turn them over.
bool Tiler::AreNested(absl::Span<const Node* const> loops) const {
  return absl::c_all_of(nest_.sink->src, [&](const Node* store) {
    return std::is_partitioned(loops.begin(), loops.end(),
                               [&](const Node* loop) { return free_->Depends(store, loop); });
  });
}

bool Tiler::TileContraction() {
  const Contraction contraction = FindContraction();
  if (contraction.fold == nullptr) return false;
  // Nothing is read twice unless some loop moves only one of the factors.
  const bool reuses = std::any_of(nest_.loops.begin(), nest_.loops.end(), [&](const Node* loop) {
    return free_->Depends(contraction.factors[0], loop) !=
           free_->Depends(contraction.factors[1], loop);
  });
  if (!reuses) return false;
  const int64_t lanes = target_.vector_bytes / std::max(ItemSize(contraction.fold->dtype), 4);
  const int64_t accumulators = target_.vector_registers >= 32 ? 24 : 12;
  const Node* const* factors = contraction.factors;

  const Node* best = nullptr;
  int of_factor = 0;
  double best_score = 0;
  for (const Node* loop : nest_.loops) {
    const bool in[2] = {free_->Depends(factors[0], loop), free_->Depends(factors[1], loop)};
    if (in[0] == in[1] || loop->range_size() < kMinLanes) continue;
    const int own = in[0] ? 0 : 1;
    if (!IsUnitStride(factors[own], loop)) continue;
    const int64_t size = loop->range_size();
    double score = size >= lanes ? static_cast<double>(size / lanes * lanes) / size
                                 : static_cast<double>(PowerOfTwoBelow(size)) / (2 * lanes);
    for (const MemoryAccess& access : accesses_) {
      if (access.node->op == Op::kStore && StrideOf(access, loop) == 1) score += 0.2;
    }
    if (score > best_score) {
      best_score = score;
      best = loop;
      of_factor = own;
    }
  }

  if (best == nullptr) return TileDotProduct(lanes);

  StreamFactor(contraction.fold, factors[of_factor]);
  std::vector<const Node*> shared, rows;
  for (const Node* loop : nest_.loops) {
    if (loop == best) continue;
    (free_->Depends(factors[of_factor], loop) ? shared : rows).push_back(loop);
  }
  // The vector factor's panel is used by all rows before the next one is taken, and a block of rows
  // that stays in the cache by all panels.
  const auto order = [&](const Node* block) {
    std::vector<const Node*> loops = shared;
    if (block != nullptr) loops.push_back(block);
    loops.push_back(best);
    loops.insert(loops.end(), rows.begin(), rows.end());
    return loops;
  };
  if (!AreNested(order(nullptr))) return false;
  const Node* block = nullptr;
  if (!rows.empty() && !rows[0]->is_bounded() && AreNested(order(rows[0]))) {
    const int64_t size = rows[0]->range_size();
    int64_t bytes = Footprint(factors[1 - of_factor]) / size;
    for (const Node* loop : shared) {
      if (free_->Depends(factors[1 - of_factor], loop)) bytes /= loop->range_size();
    }
    bytes = std::max<int64_t>(bytes, 1);
    const int64_t fit = target_.l2_bytes / 2 / bytes;
    const int64_t inner = fit >= size ? size : LargestDivisor(size, fit);
    if (inner < size && inner * bytes * 8 >= target_.l2_bytes / 2) {
      const std::vector<const Node*> parts =
          Split(rows[0], {{size / inner, RangeKind::kLoop}, {inner, RangeKind::kLoop}});
      block = parts[0];
      rows.erase(rows.begin());
      rows.insert(rows.begin(), parts.begin() + 1, parts.end());
    }
  }
  nest_.loops = order(block);
  const int64_t blocks = best->range_size() / lanes;
  const int64_t vectors = best->is_bounded()              ? 1
                          : blocks % 2 == 0 && blocks > 0 ? 2
                          : blocks % 3 == 0 && blocks > 0 ? 3
                                                          : 1;
  Vectorize(best, lanes, vectors);
  TileRows(rows, accumulators / vectors);
  return true;
}

// Lanes along the reduction, a small tile of results on both sides.
bool Tiler::TileDotProduct(int64_t lanes) {
  for (int side = 0; side < 2; ++side) {
    const Contraction now = FindContraction();
    std::vector<const Node*> rows;
    for (const Node* loop : nest_.loops) {
      if (free_->Depends(now.factors[side], loop) && !free_->Depends(now.factors[1 - side], loop)) {
        rows.push_back(loop);
      }
    }
    TileRows(rows, kDotProductTile);
  }
  const Contraction now = FindContraction();
  const Node* best = nullptr;
  for (const Node* range : now.fold->src.subspan(1)) {
    const bool fits =
        std::all_of(std::begin(now.factors), std::end(now.factors), [&](const Node* factor) {
          return !free_->Depends(factor, range) || IsUnitStride(factor, range);
        });
    if (fits && range->range_size() >= kMinLanes &&
        (best == nullptr || range->range_size() > best->range_size())) {
      best = range;
    }
  }
  if (best != nullptr) Vectorize(best, lanes, 1);
  return true;
}

void Tiler::TileOther() {
  std::vector<const Node*> loops;
  for (const Node* loop : nest_.loops) {
    if (loop->range_size() >= kMinLanes && !ordered_loops_.contains(loop)) loops.push_back(loop);
  }
  // Scans along other loops than the innermost take more than one vector of a row at a time.
  const int64_t vectors = ordered_loops_.empty() ? 1 : kScanVectors;
  if (const Node* best = MostContiguous(loops)) Vectorize(best, Lanes(), vectors);
  TileFolds();
}

// The range along which lanes gain most; null if they lose along all. Of equals the innermost,
// which has the shorter way to the next vector.
const Node* Tiler::MostContiguous(absl::Span<const Node* const> ranges) const {
  const Node* best = nullptr;
  double best_score = 0;
  for (const Node* range : ranges) {
    const double score = Contiguity(range);
    if (score > 0 && score >= best_score) {
      best_score = score;
      best = range;
    }
  }
  return best;
}

// Reductions: lanes along one of their ranges unless they have lanes already, and several terms at
// a time.
void Tiler::TileFolds() {
  absl::flat_hash_set<const Node*> done;  // ranges of Folds that were looked at
  const auto next = [&]() -> const Node* {
    for (const Node* node : TopologicalOrder({nest_.sink})) {
      if (node->op == Op::kFold && !done.contains(node->src[1])) return node;
    }
    return nullptr;
  };
  while (const Node* fold = next()) {
    done.insert(fold->src.begin() + 1, fold->src.end());
    for (const Node* part : TileFold(fold)) done.insert(part);
  }
}

// Returns the ranges that took the place of others.
std::vector<const Node*> Tiler::TileFold(const Node* fold) {
  const auto ranges = fold->src.subspan(1);
  for (const Node* below : TopologicalOrder({fold->src[0]})) {
    // The loop of another reduction inside is the one to tile.
    if (below->op == Op::kFold && std::any_of(ranges.begin(), ranges.end(), [&](const Node* range) {
          return free_->Depends(below, range);
        })) {
      return {};
    }
  }
  const std::vector<const Node*>& free = free_->Of(fold->src[0]);
  const bool has_lanes = std::any_of(free.begin(), free.end(), [](const Node* range) {
    return range->range_kind() == RangeKind::kVector;
  });
  std::vector<const Node*> wide;
  for (const Node* range : ranges) {
    if (range->range_kind() == RangeKind::kReduce && range->range_size() >= kMinLanes) {
      wide.push_back(range);
    }
  }
  const Node* range = has_lanes ? nullptr : MostContiguous(wide);
  int64_t lanes = 1;
  if (range != nullptr) {
    lanes = std::min(Lanes(), PowerOfTwoBelow(range->range_size()));
    if (range->is_bounded()) {
      if (lanes == 1) return {};
      return Blocks(range, lanes, RangeKind::kVector);
    }
    range = PeelTo(range, lanes);
  } else if (ranges.back()->range_kind() == RangeKind::kReduce && !ranges.back()->is_bounded()) {
    range = ranges.back();
  } else {
    return {};
  }
  const int64_t blocks = range->range_size() / lanes;
  const int64_t unroll = LargestDivisor(blocks, kReduceUnroll);
  return Split(range, {{blocks / unroll, RangeKind::kReduce},
                       {unroll, RangeKind::kUnroll},
                       {lanes, RangeKind::kVector}});
}

// What was peeled off is short: lanes as far as they go.
void Tiler::TileRests() {
  while (!rests_.empty()) {
    const Node* rest = rests_.back();
    rests_.pop_back();
    bool alive = false, vectors_around = false;
    for (const auto& [node, ranges] : free_->all()) {
      if (node->op == Op::kSink || !free_->Depends(node, rest)) continue;
      alive = true;
      for (const Node* range : ranges) {
        vectors_around |= range->range_kind() == RangeKind::kVector;
      }
    }
    if (!alive || vectors_around || rest->range_size() < 2 || Contiguity(rest) <= 0) continue;
    Vectorize(rest, Lanes(), 1);
  }
}

// Turns of a loop whose end is not known, one to each workgroup in turn.
void Tiler::DealOut(const Node* range, int64_t groups) {
  Graph& graph = nest_.graph;
  const Node* group = numbers_.Make(graph, groups, RangeKind::kGrid);
  const Node* left =
      graph.Make(Op::kAdd, {graph.Make(Op::kSub, {range->src[0], group}), graph.Index(groups - 1)});
  const Node* turns = graph.Make(Op::kFloorDiv, {left, graph.Index(groups)});
  const Node* own =
      numbers_.Make(graph, {(range->range_size() + groups - 1) / groups, turns}, RangeKind::kLoop);
  const Node* value =
      graph.Make(Op::kAdd, {graph.Make(Op::kMul, {own, graph.Index(groups)}), group});
  ReplaceRange(nest_, range, {value, {group, own}});
  std::erase(nest_.loops, group);
  nest_.loops.insert(nest_.loops.begin(), group);
  Analyze();
}

void Tiler::ChooseGrid() {
  double work = 0;
  for (const Node* node : TopologicalOrder({nest_.sink})) {
    if (In(node->op, kAccesses)) work += TimesOf(node);
  }
  if (work < kMinParallelWork || target_.cores < 2) return;
  const int64_t wanted = kGroupsPerCore * target_.cores;
  const Node* best = nullptr;
  const absl::flat_hash_set<const Node*> ordered = OrderedLoops(nest_.sink);
  for (const Node* loop : nest_.loops) {
    if (loop->range_kind() != RangeKind::kLoop || ordered.contains(loop)) continue;
    const bool everywhere =
        std::all_of(nest_.sink->src.begin(), nest_.sink->src.end(),
                    [&](const Node* store) { return free_->Depends(store, loop); });
    if (!everywhere) continue;
    if (best == nullptr ||
        (best->range_size() < wanted && loop->range_size() > best->range_size())) {
      best = loop;
    }
  }
  if (best == nullptr || best->range_size() < 2) return;
  if (best->is_bounded()) {
    DealOut(best, std::min(best->range_size(), wanted));
    return;
  }
  int64_t groups = LargestDivisor(best->range_size(), wanted);
  if (groups < target_.cores) groups = best->range_size();
  const std::vector<const Node*> parts =
      Split(best, {{groups, RangeKind::kGrid}, {best->range_size() / groups, RangeKind::kLoop}});
  // Workgroups are outermost; the loop within one is next, in place of the whole.
  std::erase(nest_.loops, parts[0]);
  nest_.loops.insert(nest_.loops.begin(), parts[0]);
}

}  // namespace

void Tile(LoopNest& nest, const Target& target) { Tiler(nest, target).Run(); }

}  // namespace tensord
