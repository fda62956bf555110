#include "core/tensor/hash.h"

#include <algorithm>
#include <array>

#include "core/tensor/index.h"
#include "core/tensor/iterate.h"

namespace tensord {
namespace {

constexpr int64_t kRounds = 24;

// By how much lane x + 5 y is turned: the walk of the specification, not a table.
std::array<int, 25> Turns() {
  std::array<int, 25> turns = {};
  int x = 1, y = 0;
  for (int t = 0; t < 24; ++t) {
    turns[x + 5 * y] = (t + 1) * (t + 2) / 2 % 64;
    const int next = (2 * x + 3 * y) % 5;
    x = y;
    y = next;
  }
  return turns;
}

// Bit j of entry k says whether the constant of round k has bit 2^j - 1.
std::array<uint64_t, kRounds> RoundBits() {
  std::array<uint64_t, kRounds> bits = {};
  int lfsr = 1;
  for (uint64_t& each : bits) {
    for (int j = 0; j < 7; ++j) {
      each |= static_cast<uint64_t>(lfsr & 1) << j;
      lfsr <<= 1;
      if (lfsr & 0x100) lfsr ^= 0x171;
    }
  }
  return bits;
}

Expr Word(Graph& graph, uint64_t value) { return Constant(graph, value, DType::kUint64); }

// Small numbers, packed `each` bits wide into words, by an index.
template <size_t n>
Expr Looked(const std::array<uint64_t, n>& table, int each, const Expr& index) {
  const int per_word = 64 / each;
  Graph& graph = index.graph();
  Expr packed = Word(graph, 0);
  for (int first = (static_cast<int>(n) - 1) / per_word * per_word; first >= 0; first -= per_word) {
    uint64_t word = 0;
    for (int i = 0; i < per_word && first + i < static_cast<int>(n); ++i) {
      word |= table[first + i] << (each * i);
    }
    packed = Where(Lt(index, first + per_word), Word(graph, word), packed);
  }
  const Expr shift = Cast(Mod(index, per_word) * each, DType::kUint64);
  return BitwiseAnd(ShiftRight(packed, shift), (int64_t{1} << each) - 1);
}

Expr TurnLeft(const Expr& x, const Expr& by) {
  return BitwiseOr(ShiftLeft(x, by), ShiftRight(x, 64 - by));
}

// One round of the permutation of [.., 25].
Expr Round(const Expr& k, const Expr& state) {
  Graph& graph = state.graph();
  const Expr a = Unflatten(state, -1, {5, 5});  // [.., y, x]
  Expr parity = Select(a, -2, 0);
  for (int64_t y = 1; y < 5; ++y) parity = BitwiseXor(parity, Select(a, -2, y));
  const Expr mixed =
      BitwiseXor(Roll(parity, 1, -1), TurnLeft(Roll(parity, -1, -1), Word(graph, 1)));
  const Expr theta = Flatten(BitwiseXor(a, Unsqueeze(mixed, -2)), -2, -1);
  const std::array<int, 25> turns = Turns();
  std::array<uint64_t, 25> table;
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<uint64_t>(turns[i]);
  const Expr lane = Arange(graph, 0, 25, 1, DType::kInt32);
  const Expr rho = TurnLeft(theta, Looked(table, 6, lane));
  // Lane (x, y) comes from (x + 3 y, x).
  const Expr x = Mod(lane, 5), y = FloorDivide(lane, 5);
  const Expr from = Mod(x + y * 3, 5) + x * 5;
  std::vector<IndexItem> items(state.rank() - 1, Slice{});
  items.push_back(from);
  const Expr pi = Unflatten(Index(rho, items), -1, {5, 5});
  const Expr chi = BitwiseXor(pi, BitwiseAnd(BitwiseNot(Roll(pi, -1, -1)), Roll(pi, -2, -1)));
  const Expr bits = Looked(RoundBits(), 7, k);
  Expr constant = Word(graph, 0);
  for (int j = 0; j < 7; ++j) {
    const Expr bit = BitwiseAnd(ShiftRight(bits, j), 1);
    constant = BitwiseOr(constant, ShiftLeft(bit, (1 << j) - 1));
  }
  return BitwiseXor(Flatten(chi, -2, -1), Where(Eq(lane, 0), constant, Word(graph, 0)));
}

}  // namespace

std::optional<KeccakConfig> KeccakFromName(std::string_view name) {
  if (name == "sha3_224") return KeccakConfig{144, 0x06};
  if (name == "sha3_256") return KeccakConfig{136, 0x06};
  if (name == "shake_128") return KeccakConfig{168, 0x1F};
  return std::nullopt;
}

Expr Keccak(const Expr& message, const KeccakConfig& config) {
  if (!message.ok()) return message;
  const int64_t rate = config.rate;
  if (message.dtype() != DType::kUint8 || message.rank() == 0) {
    return Fail(message, "keccak: the message is {} {}; it needs uint8 along its last axis",
                Name(message.dtype()), ShapeText(message.shape()));
  }
  if (rate < 8 || rate >= 200 || rate % 8 != 0 || config.suffix < 0 || config.suffix > 255) {
    return Fail(message, "keccak: rate {} and suffix {}; the rate is 8, 16, .. 192 bytes", rate,
                config.suffix);
  }
  const int64_t length = message.shape()[message.rank() - 1], blocks = length / rate + 1;
  Graph& graph = message.graph();
  std::vector<PadAmount> amounts(message.rank());
  amounts.back() = {0, blocks * rate - length};
  const Expr place = Arange(graph, 0, blocks * rate, 1, DType::kInt32);
  const Expr zero = Constant(graph, 0, DType::kUint8);
  const Expr end =
      BitwiseXor(Where(Eq(place, length), Constant(graph, config.suffix, DType::kUint8), zero),
                 Where(Eq(place, blocks * rate - 1), Constant(graph, 0x80, DType::kUint8), zero));
  const Expr padded = BitwiseXor(Pad(message, amounts), end);
  const Expr bytes = Cast(Unflatten(padded, -1, {blocks, rate / 8, 8}), DType::kUint64);
  const Expr shift = Arange(graph, 0, 8, 1, DType::kUint64) * 8;
  const Expr words = Contiguous(Sum(ShiftLeft(bytes, shift), -1));  // [.., blocks, rate / 8]

  Dims dims(message.shape().begin(), message.shape().end() - 1);
  dims.push_back(25);
  Expr state = Zeros(graph, dims, DType::kUint64);
  std::vector<PadAmount> capacity(dims.size());
  capacity.back() = {0, 25 - rate / 8};
  // A block after the other, each in all its rounds.
  const auto absorb = [&](const Expr&, absl::Span<const Expr> states,
                          absl::Span<const Expr> block) {
    const Expr absorbed = BitwiseXor(states[0], Pad(block[0], capacity));
    const auto round = [](const Expr& k, absl::Span<const Expr> now) {
      return std::vector<Expr>{Round(k, now[0])};
    };
    return ScanStep{.next = Steps(kRounds, {absorbed}, round), .out = {}};
  };
  state = ScanLoop(blocks, {state}, {MoveAxis(words, -2, 0)}, absorb).states[0];
  if (!state.ok()) return state;
  const Expr out = Cast(ShiftRight(Unsqueeze(state, -1), shift), DType::kUint8);
  return Shrink(Flatten(out, -2, -1), -1, 0, (200 - rate) / 2);
}

Expr TreeHash(const Expr& bytes) {
  if (!bytes.ok()) return bytes;
  if (bytes.dtype() != DType::kUint8) {
    return Fail(bytes, "hash: the data is {}; it needs uint8 (see bitcast)", Name(bytes.dtype()));
  }
  constexpr int64_t kPiece = 1 << 20, kBlock = 4096;
  const KeccakConfig shake = *KeccakFromName("shake_128");
  Expr data = Flatten(bytes);
  do {
    const int64_t size = data.shape()[0],
                  pieces = std::max<int64_t>((size + kPiece - 1) / kPiece, 1);
    const Expr padded = Pad(data, {{0, pieces * kPiece - size}});
    const Expr hashes = Keccak(Reshape(padded, {pieces * kPiece / kBlock, kBlock}), shake);
    data = Flatten(Keccak(Reshape(hashes, {pieces, kBlock}), shake));
    if (!data.ok()) return data;
  } while (data.shape()[0] > 16);
  return data;
}

}  // namespace tensord
