#include "core/tensor/size.h"

#include <absl/base/thread_annotations.h>
#include <absl/container/flat_hash_set.h>
#include <absl/synchronization/mutex.h>

#include <algorithm>
#include <set>
#include <vector>

#include "core/base/status.h"

namespace tensord {
namespace {

// All expressions that this process uses as sizes, in a graph of their own, so that equal ones have
// one code. There are few: they grow with the text of programs, not with what runs.
class Registry {
 public:
  static Registry& Get() {
    static Registry& registry = *new Registry;
    return registry;
  }

  int64_t CodeOf(const Node* size) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return Encode(CopyTo(graph_, {&size, 1})[0]);
  }

  absl::StatusOr<const Node*> Decode(Graph& graph, int64_t code) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    TD_ASSIGN_OR_RETURN(const Node* node, Find(code));
    return CopyTo(graph, {&node, 1})[0];
  }

  // Calls `use` with the graph and the size in it.
  template <typename Use>
  auto With(int64_t code, Use use) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    absl::StatusOr<const Node*> node = Find(code);
    return use(graph_, node.ok() ? *node : nullptr);
  }

  // A copy that stays.
  Shape Keep(std::vector<int64_t> shape) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return *shapes_.insert(std::move(shape)).first;
  }

  absl::StatusOr<int64_t> Arithmetic(Op op, int64_t a, int64_t b) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    TD_ASSIGN_OR_RETURN(const Dim x, Read(a));
    TD_ASSIGN_OR_RETURN(const Dim y, Read(b));
    TD_ASSIGN_OR_RETURN(const Dim result, DimArithmetic(graph_, op, x, y));
    return result.node == nullptr ? result.size : Encode(result.node);
  }

  bool AtMost(int64_t a, int64_t b) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    const absl::StatusOr<Dim> x = Read(a), y = Read(b);
    return x.ok() && y.ok() && tensord::AtMost(*x, *y);
  }

 private:
  // Codes are far apart, so that a number near one is none.
  static constexpr int64_t kFirst = -(int64_t{1} << 62), kStep = int64_t{1} << 24;

  int64_t Encode(const Node* node) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    codes_.insert(node->id);
    return kFirst - kStep * static_cast<int64_t>(node->id);
  }

  absl::StatusOr<const Node*> Find(int64_t code) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const int64_t place = kFirst - code;
    if (place >= 0 && place % kStep == 0 && codes_.contains(static_cast<uint32_t>(place / kStep)) &&
        place / kStep < static_cast<int64_t>(graph_.size())) {
      return graph_.node(static_cast<uint32_t>(place / kStep));
    }
    return InvalidArgument("the operation needs sizes that are numbers, and one varies");
  }

  absl::StatusOr<Dim> Read(int64_t size) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (!Varies(size)) return Dim{size};
    TD_ASSIGN_OR_RETURN(const Node* node, Find(size));
    return DimOf(node);
  }

  absl::Mutex mu_;
  Graph graph_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_set<uint32_t> codes_ ABSL_GUARDED_BY(mu_);
  std::set<std::vector<int64_t>> shapes_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

Shape Expr::CodedShape() const {
  std::vector<int64_t> shape;
  for (const Dim& dim : ShapeOf(node_)) shape.push_back(SizeOf(dim));
  return Registry::Get().Keep(std::move(shape));
}

bool AnyVaries(Shape shape) { return std::any_of(shape.begin(), shape.end(), Varies); }

absl::StatusOr<int64_t> VariableSize(std::string_view name, int64_t min, int64_t max) {
  Graph graph;
  TD_ASSIGN_OR_RETURN(
      const Node* variable,
      graph.TryMake(
          {.op = Op::kVariable, .ints = {min, max}, .text = name, .dtype = DType::kInt32}));
  return SizeOf(DimOf(graph.Cast(variable, DType::kIndex)));
}

absl::StatusOr<Dim> DimOfSize(Graph& graph, int64_t size) {
  if (!Varies(size)) return Dim{size};
  TD_ASSIGN_OR_RETURN(const Node* node, Registry::Get().Decode(graph, size));
  return DimOf(node);
}

absl::StatusOr<Sizes> DimsOfShape(Graph& graph, Shape shape) {
  Sizes sizes;
  for (int64_t size : shape) {
    TD_ASSIGN_OR_RETURN(const Dim dim, DimOfSize(graph, size));
    sizes.push_back(dim);
  }
  return sizes;
}

int64_t SizeOf(Dim dim) {
  return dim.node == nullptr ? dim.size : Registry::Get().CodeOf(dim.node);
}

Expr SizeValue(Graph& graph, int64_t size, DType dtype) {
  const absl::StatusOr<Dim> dim = DimOfSize(graph, size);
  if (!dim.ok()) return Expr(&graph, dim.status());
  return Expr(&graph, graph.Cast(NodeOf(graph, *dim), dtype));
}

int64_t SizeLow(int64_t size) {
  if (!Varies(size)) return size;
  return Registry::Get().With(
      size, [](Graph&, const Node* node) { return node == nullptr ? 0 : node->lo; });
}

int64_t SizeHigh(int64_t size) {
  if (!Varies(size)) return size;
  return Registry::Get().With(
      size, [](Graph&, const Node* node) { return node == nullptr ? 0 : node->hi; });
}

bool SizeAtMost(int64_t a, int64_t b) {
  if (!Varies(a) && !Varies(b)) return a <= b;
  return Registry::Get().AtMost(a, b);
}

absl::StatusOr<int64_t> SizeArithmetic(Op op, int64_t a, int64_t b) {
  return Registry::Get().Arithmetic(op, a, b);
}

absl::StatusOr<int64_t> SizePlus(int64_t a, int64_t b) {
  if (!Varies(a) && !Varies(b)) return a + b;
  return SizeArithmetic(Op::kAdd, a, b);
}

absl::StatusOr<int64_t> SizeMinus(int64_t a, int64_t b) {
  if (!Varies(a) && !Varies(b)) return a - b;
  return SizeArithmetic(Op::kSub, a, b);
}

absl::StatusOr<int64_t> SizeProduct(Shape sizes) {
  int64_t product = 1;
  for (int64_t size : sizes) {
    if (!Varies(size) && !Varies(product)) {
      product *= size;
    } else {
      TD_ASSIGN_OR_RETURN(product, SizeArithmetic(Op::kMul, product, size));
    }
  }
  return product;
}

std::vector<SizeVariable> VariablesOfSize(int64_t size) {
  std::vector<SizeVariable> result;
  if (!Varies(size)) return result;
  Registry::Get().With(size, [&](Graph&, const Node* node) {
    std::vector<const Node*> variables;
    if (node != nullptr) CollectVariables(node, variables);
    for (const Node* variable : variables) {
      result.push_back({std::string(variable->text), variable->ints[0], variable->ints[1]});
    }
  });
  return result;
}

int64_t SizeIn(int64_t size, const std::function<int64_t(std::string_view)>& value_of) {
  if (!Varies(size)) return size;
  return Registry::Get().With(size, [&](Graph&, const Node* node) {
    return node == nullptr
               ? 0
               : Evaluate(node, [&](const Node* variable) { return value_of(variable->text); });
  });
}

std::string SizeText(int64_t size) {
  if (!Varies(size)) return fmt::format("{}", size);
  return Registry::Get().With(size, [](Graph&, const Node* node) {
    return node == nullptr ? std::string("?") : TextOf(DimOf(node));
  });
}

absl::StatusOr<SizedOp> MakeSizedOp(Graph& graph, Op op, absl::Span<const Node* const> operands,
                                    Shape ints) {
  const size_t first = FirstSize(op);
  TD_ASSIGN_OR_RETURN(const Sizes sizes, DimsOfShape(graph, ints.subspan(first)), "{}", Name(op));
  return SizedOp(operands, sizes, ints.first(first));
}

}  // namespace tensord
