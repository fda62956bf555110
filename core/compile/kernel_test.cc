// Whole kernels: loops, accumulators, memory access and gates.
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "core/compile/linear_testing.h"
#include "core/ir/eval.h"

namespace tensord {
namespace {

// Elements that end exactly where memory that can't be touched begins.
template <typename T>
class GuardedArray {
 public:
  explicit GuardedArray(size_t count) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t used = (count * sizeof(T) + page - 1) / page * page;
    bytes_ = used + page;
    memory_ = static_cast<char*>(
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(memory_ + used, page, PROT_NONE);
    data_ = reinterpret_cast<T*>(memory_ + used - count * sizeof(T));
  }
  ~GuardedArray() { munmap(memory_, bytes_); }
  GuardedArray(const GuardedArray&) = delete;
  GuardedArray& operator=(const GuardedArray&) = delete;
  T* data() { return data_; }
  T& operator[](size_t i) { return data_[i]; }

 private:
  size_t bytes_;
  char* memory_;
  T* data_;
};

const Node* Ramp(LinearBuilder& b, int lanes) {
  if (lanes == 1) return b.graph.Index(0);
  return b.Add({.op = Op::kRamp, .dtype = DType::kIndex, .lanes = static_cast<uint16_t>(lanes)});
}

// out[row] = sum over columns, in vectors of partial sums that are added at the end.
TEST(KernelTest, SumsRows) {
  constexpr int64_t kRows = 5, kColumns = 48;
  for (int lanes : {1, 2, 3, 8, 16}) {
    LinearBuilder b("sum_rows");
    const Node* in = b.Param(DType::kFloat32, kRows * kColumns);
    const Node* out = b.Param(DType::kFloat32, kRows);
    const Node* row = b.Range(kRows);
    const Node* zero = b.Broadcast(b.graph.Float(DType::kFloat32, 0), lanes);
    const Node* sum = b.Accumulator(zero);
    const Node* column = b.Range(kColumns / lanes);
    const Node* index = b.Add(Op::kAdd, {b.Add(Op::kMul, {row, b.graph.Index(kColumns)}),
                                         b.Add(Op::kMul, {column, b.graph.Index(lanes)})});
    b.Add(Op::kUpdate, {sum, b.Add(Op::kAdd, {b.Read(sum), b.Load(in, index, lanes)})});
    b.End(column);
    const Node* total = b.Read(sum);
    if (lanes > 1) {
      total = b.Add(Op::kHorizontal, {total}, {static_cast<int64_t>(ReduceKind::kAdd)});
    }
    b.Store(out, row, total);
    b.End(row);
    const LoadedLinear kernel(b.program);
    ASSERT_TRUE(kernel.ok());
    std::vector<float> x(kRows * kColumns), y(kRows);
    std::iota(x.begin(), x.end(), 1.0f);  // sums stay exact
    kernel.Run({x.data(), y.data()});
    for (int64_t r = 0; r < kRows; ++r) {
      EXPECT_EQ(y[r], std::accumulate(&x[r * kColumns], &x[r * kColumns] + kColumns, 0.0f))
          << lanes << " lanes";
    }
  }
}

TEST(KernelTest, HorizontalAgreesWithEvalForEveryKindAndDType) {
  for (DType dtype : {DType::kBool, DType::kInt8, DType::kUint32, DType::kInt64, DType::kFloat16,
                      DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    for (int lanes : {2, 3, 5, 16, 64}) {
      LinearBuilder b("horizontal");
      const Node* in = b.Param(dtype, lanes);
      const Node* out = b.Param(dtype, 4);
      const Node* vector = b.Load(in, b.graph.Index(0), lanes);
      for (int64_t kind = 0; kind < 4; ++kind) {
        b.Store(out, b.graph.Index(kind), b.Add(Op::kHorizontal, {vector}, {kind}));
      }
      const LoadedLinear kernel(b.program);
      ASSERT_TRUE(kernel.ok());
      const int size = ItemSize(dtype);
      std::vector<uint8_t> x(lanes * size), y(4 * size);
      std::vector<Scalar> values;
      for (int i = 0; i < lanes; ++i) {
        // Small powers of two: products and sums are exact in every dtype and order.
        values.push_back(Scalar::Of(dtype, i % 7 == 3 ? 2 : i % 5 == 1 ? -1 : 1));
        const uint64_t bits = values.back().ToBits();
        std::memcpy(&x[i * size], &bits, size);
      }
      kernel.Run({x.data(), y.data()});
      for (int kind = 0; kind < 4; ++kind) {
        Scalar expected = values[0];
        for (int i = 1; i < lanes; ++i) {
          const Scalar src[] = {expected, values[i]};
          expected = *EvalOp(CombineOp(static_cast<ReduceKind>(kind)), dtype, src);
        }
        uint64_t bits = 0;
        std::memcpy(&bits, &y[kind * size], size);
        EXPECT_TRUE(Scalar::FromBits(dtype, bits) == expected)
            << Name(dtype) << " " << lanes << " lanes, kind " << kind;
      }
    }
  }
}

// Reads and writes of places whose gate is false would fault.
TEST(KernelTest, GatedAccessTouchesNothingElse) {
  constexpr int64_t kCount = 21, kPadded = 32;
  for (DType dtype :
       {DType::kBool, DType::kInt8, DType::kFloat16, DType::kFloat32, DType::kInt64}) {
    const int size = ItemSize(dtype);
    for (int lanes : {1, 4, 16}) {
      for (bool vector_index : {false, true}) {
        LinearBuilder b("gated");
        const Node* in = b.Param(dtype, kCount);
        const Node* out = b.Param(dtype, kCount);
        const Node* padded = b.Param(dtype, kPadded);
        const Node* range = b.Range(kPadded / lanes);
        const Node* start = b.Add(Op::kMul, {range, b.graph.Index(lanes)});
        const Node* each =
            lanes == 1 ? start : b.Add(Op::kAdd, {b.Broadcast(start, lanes), Ramp(b, lanes)});
        const Node* gate = b.Add(Op::kCmpLt, {each, b.Broadcast(b.graph.Index(kCount), lanes)});
        const Node* index = vector_index ? each : start;
        const Node* value = b.Load(in, index, lanes, gate);
        b.Store(out, index, value, gate);
        b.Store(padded, start, value);
        b.End(range);
        const LoadedLinear kernel(b.program);
        ASSERT_TRUE(kernel.ok());
        GuardedArray<uint8_t> x(kCount * size), y(kCount * size);
        std::vector<uint8_t> z(kPadded * size, 0xAA);
        for (int64_t i = 0; i < kCount * size; ++i) {
          x[i] = dtype == DType::kBool ? i % 3 == 0 : i * 7 + 1;
        }
        kernel.Run({x.data(), y.data(), z.data()});
        for (int64_t i = 0; i < kPadded * size; ++i) {
          const bool inside = i < kCount * size;
          EXPECT_EQ(z[i], inside ? x[i] : 0) << Name(dtype) << lanes << vector_index;
          if (inside) {
            EXPECT_EQ(y[i], x[i]) << Name(dtype) << lanes << vector_index;
          }
        }
      }
    }
  }
}

// One gate for a whole vector, as for the rows of a padded image.
TEST(KernelTest, ScalarGateOfVectorsTouchesNothingElse) {
  constexpr int64_t kRows = 3, kLanes = 8;
  LinearBuilder b("rows");
  const Node* in = b.Param(DType::kFloat32, kRows * kLanes);
  const Node* out = b.Param(DType::kFloat32, kRows * kLanes);
  const Node* padded = b.Param(DType::kFloat32, (kRows + 2) * kLanes);
  const Node* row = b.Range(kRows + 2);
  const Node* source = b.Add(Op::kSub, {row, b.graph.Index(1)});
  const Node* gate = b.Add(Op::kAnd, {b.Add(Op::kCmpLt, {b.graph.Index(0), row}),
                                      b.Add(Op::kCmpLt, {row, b.graph.Index(kRows + 1)})});
  // Far outside where the gate is false.
  const Node* index = b.Add(Op::kMul, {source, b.graph.Index(kLanes)});
  const Node* far = b.Add(Op::kWhere, {gate, index, b.graph.Index(int64_t{1} << 40)});
  const Node* value = b.Load(in, far, kLanes, gate);
  b.Store(out, far, value, gate);
  b.Store(padded, b.Add(Op::kMul, {row, b.graph.Index(kLanes)}), value);
  b.End(row);
  const LoadedLinear kernel(b.program);
  ASSERT_TRUE(kernel.ok());
  std::vector<float> x(kRows * kLanes), y(x.size()), z((kRows + 2) * kLanes, -1);
  std::iota(x.begin(), x.end(), 1.0f);
  kernel.Run({x.data(), y.data(), z.data()});
  EXPECT_EQ(x, y);
  for (int64_t i = 0; i < static_cast<int64_t>(z.size()); ++i) {
    const int64_t k = i - kLanes;
    EXPECT_EQ(z[i], k >= 0 && k < kRows * kLanes ? x[k] : 0);
  }
}

TEST(KernelTest, GathersAndScattersByVectorIndex) {
  constexpr int64_t kCount = 64;
  for (DType dtype : {DType::kBool, DType::kInt16, DType::kFloat32, DType::kFloat64}) {
    const int size = ItemSize(dtype);
    LinearBuilder b("reverse");
    const Node* in = b.Param(dtype, kCount);
    const Node* gathered = b.Param(dtype, kCount);
    const Node* scattered = b.Param(dtype, kCount);
    const Node* range = b.Range(kCount / 8);
    const Node* start = b.Add(Op::kMul, {range, b.graph.Index(8)});
    const Node* each = b.Add(Op::kAdd, {b.Broadcast(start, 8), Ramp(b, 8)});
    const Node* reversed = b.Add(Op::kSub, {b.Broadcast(b.graph.Index(kCount - 1), 8), each});
    b.Store(gathered, start, b.Load(in, reversed, 8));
    b.Store(scattered, reversed, b.Load(in, start, 8));
    b.End(range);
    const LoadedLinear kernel(b.program);
    ASSERT_TRUE(kernel.ok());
    std::vector<uint8_t> x(kCount * size), y(x.size()), z(x.size());
    for (size_t i = 0; i < x.size(); ++i) x[i] = dtype == DType::kBool ? i % 3 == 0 : i;
    kernel.Run({x.data(), y.data(), z.data()});
    EXPECT_EQ(y, z);
    for (int64_t i = 0; i < kCount; ++i) {
      EXPECT_EQ(std::memcmp(&y[i * size], &x[(kCount - 1 - i) * size], size), 0) << Name(dtype);
    }
  }
}

TEST(KernelTest, StackExtractBroadcastAndVariables) {
  LinearBuilder b("lanes");
  const Node* out = b.Param(DType::kInt64, 4);
  const Node* n = b.Variable("n", 0, 1000);
  const Node* m = b.Variable("m", 0, 1000);
  const Node* one = b.graph.Index(1);
  const Node* stack = b.Add(Op::kStack, {n, m, b.Add(Op::kAdd, {n, one}), one});
  const Node* twice = b.Add(Op::kAdd, {stack, b.Broadcast(n, 4)});
  const Node* last = b.Broadcast(b.Add(Op::kExtract, {twice}, {2}), 4);
  const Node* value = b.Add(Op::kAdd, {twice, last});
  b.Store(out, b.graph.Index(0), b.Add({.op = Op::kCast, .src = {value}, .dtype = DType::kInt64}));
  const LoadedLinear kernel(b.program);
  ASSERT_TRUE(kernel.ok());
  std::vector<int64_t> y(4);
  kernel.Run({y.data()}, {10, 20});
  EXPECT_EQ(y, (std::vector<int64_t>{20 + 21, 30 + 21, 21 + 21, 11 + 21}));
}

TEST(KernelTest, GridCoversTheOutput) {
  LinearBuilder b("grid");
  const Node* out = b.Param(DType::kInt32, 12);
  const Node* group = b.Add(Op::kGridIndex, {}, {0});
  const Node* range = b.Range(3);
  const Node* index = b.Add(Op::kAdd, {b.Add(Op::kMul, {group, b.graph.Index(3)}), range});
  b.Store(out, index, b.Add({.op = Op::kCast, .src = {index}, .dtype = DType::kInt32}));
  b.End(range);
  b.program.grid = 4;
  const LoadedLinear kernel(b.program);
  ASSERT_TRUE(kernel.ok());
  std::vector<int32_t> y(12, -1), expected(12);
  std::iota(expected.begin(), expected.end(), 0);
  kernel.Run({y.data()});
  EXPECT_EQ(y, expected);
}

// A buffer that is written and then read in the same kernel: no load may move above the store.
TEST(KernelTest, ReadsWhatItWrote) {
  LinearBuilder b("prefix");
  const Node* data = b.Param(DType::kInt32, 10);
  const Node* range = b.Range(9);
  const Node* next = b.Add(Op::kAdd, {range, b.graph.Index(1)});
  const Node* sum = b.Add(Op::kAdd, {b.Load(data, range), b.Load(data, next)});
  b.Store(data, next, sum);
  b.End(range);
  const LoadedLinear kernel(b.program);
  ASSERT_TRUE(kernel.ok());
  std::vector<int32_t> y(10, 1);
  kernel.Run({y.data()});
  for (int i = 0; i < 10; ++i) EXPECT_EQ(y[i], i + 1);
}

TEST(KernelTest, MultipliesMatricesInTiles) {
  const MatmulTile tile{.lanes = LlvmHostTarget().vector_bytes / 4, .rows = 4, .vectors = 2};
  const int64_t m = 2 * tile.rows, n = 2 * tile.vectors * tile.lanes, k = 37;
  LinearBuilder b("matmul");
  BuildMatmul(b, tile, m, n, k);
  const LoadedLinear kernel(b.program);
  ASSERT_TRUE(kernel.ok());
  std::vector<float> x(m * k), y(k * n), z(m * n);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) - 3;
  for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<float>(i % 5) - 2;
  kernel.Run({x.data(), y.data(), z.data()});
  for (int64_t r = 0; r < m; ++r) {
    for (int64_t c = 0; c < n; ++c) {
      float expected = 0;
      for (int64_t i = 0; i < k; ++i) expected += x[r * k + i] * y[i * n + c];
      EXPECT_EQ(z[r * n + c], expected);
    }
  }
}

struct BadCase {
  const char* name;
  void (*build)(LinearBuilder&);
  absl::StatusCode code;
  const char* message;
};

const BadCase kBadCases[] = {
    {"NameIsNoIdentifier", [](LinearBuilder& b) { b.program.name = "a b"; },
     absl::StatusCode::kInvalidArgument, "not a C identifier"},
    {"OpenLoop", [](LinearBuilder& b) { b.Range(3); }, absl::StatusCode::kInvalidArgument,
     "is not closed"},
    {"CrossedLoops",
     [](LinearBuilder& b) {
       const Node* outer = b.Range(3);
       b.Range(4);
       b.End(outer);
     },
     absl::StatusCode::kInvalidArgument, "does not close the innermost loop"},
    {"Float8Parameter", [](LinearBuilder& b) { b.Param(DType::kFloat8E4M3, 4); },
     absl::StatusCode::kInvalidArgument, "float8_e4m3fn"},
    {"OperandStandsLater",
     [](LinearBuilder& b) {
       const Node* out = b.Param(DType::kInt64, 1);
       const Node* n = b.graph.Variable("n", 0, 5, DType::kInt64);
       b.Store(out, b.graph.Index(0), b.Add(Op::kNeg, {n}));
     },
     absl::StatusCode::kInvalidArgument, "does not stand before it"},
    {"TensorOp",
     [](LinearBuilder& b) {
       const Node* x = b.Param(DType::kFloat32, 4);
       b.Add(Op::kFlip, {x}, {0});
     },
     absl::StatusCode::kInvalidArgument, "not one of a linear program"},
};

TEST(KernelTest, RefusesWhatIsNoLinearProgram) {
  for (const BadCase& bad : kBadCases) {
    LinearBuilder b("bad");
    bad.build(b);
    const auto kernel = CompileKernel(b.program, LlvmHostTarget());
    EXPECT_EQ(kernel.status().code(), bad.code) << bad.name << kernel.status();
    EXPECT_NE(Message(kernel.status()).find(bad.message), std::string_view::npos)
        << bad.name << ": " << kernel.status();
  }
}

TEST(KernelTest, RefusesAnUnknownRenderer) {
  LinearBuilder b("nothing");
  Target target = LlvmHostTarget();
  target.renderer = "wgsl";
  EXPECT_EQ(CompileKernel(b.program, target).status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace tensord
