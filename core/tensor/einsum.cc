// Einsum and tensordot: products of tensors whose axes have labels.
#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <vector>

#include "core/tensor/build.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/movement.h"
#include "core/tensor/product.h"
#include "core/tensor/reduce.h"

namespace tensord {
namespace {

// A letter as it is; the axes of an ellipsis from the last one on are kEllipsis, kEllipsis + 1, ..
using Label = int64_t;
constexpr Label kEllipsis = 256;
using Labels = std::vector<Label>;

bool Has(const Labels& labels, Label label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

std::string Name(Label label) {
  return label >= kEllipsis ? std::string("...") : std::string(1, static_cast<char>(label));
}

struct Labelled {
  Expr value;
  Labels labels;  // one per axis
};

// The axes of `target` in order: those that x lacks have size 1, and x has no others.
Expr Align(const Labelled& x, const Labels& target) {
  Dims order, dims;
  for (Label label : target) {
    const auto found = std::find(x.labels.begin(), x.labels.end(), label);
    const int64_t axis = found - x.labels.begin();
    if (found != x.labels.end()) order.push_back(axis);
    dims.push_back(found == x.labels.end() ? 1 : x.value.shape()[axis]);
  }
  return Reshape(Permute(x.value, order), dims);
}

Labelled SumOut(const Labelled& x, const Labels& gone) {
  if (gone.empty()) return x;
  Dims axes;
  Labels rest;
  for (size_t i = 0; i < x.labels.size(); ++i) {
    if (Has(gone, x.labels[i])) {
      axes.push_back(static_cast<int64_t>(i));
    } else {
      rest.push_back(x.labels[i]);
    }
  }
  return {Sum(x.value, Axes(absl::Span<const int64_t>(axes))), rest};
}

// A label that occurs twice becomes one axis, the diagonal of both.
Labelled Diagonals(Labelled x) {
  for (size_t i = 0; i < x.labels.size(); ++i) {
    const auto again = std::find(x.labels.begin() + i + 1, x.labels.end(), x.labels[i]);
    if (again == x.labels.end()) continue;
    const int64_t first = static_cast<int64_t>(i), second = again - x.labels.begin();
    const Label label = x.labels[i];
    if (x.value.shape()[first] != x.value.shape()[second]) {
      return {Fail(x.value, "einsum: label '{}' has sizes {} and {} in one operand", Name(label),
                   x.value.shape()[first], x.value.shape()[second]),
              x.labels};
    }
    x.labels.erase(again);
    x.labels.erase(x.labels.begin() + first);
    x.labels.push_back(label);
    x.value = Diagonal(MoveAxis(MoveAxis(x.value, second, -1), first, -1));
    return Diagonals(std::move(x));
  }
  return x;
}

// The product of a and b; labels that are not in `needed` are summed.
Labelled ContractPair(Labelled a, Labelled b, const Labels& needed) {
  const auto alone = [&needed](const Labelled& x, const Labelled& other) {
    Labels result;
    for (Label label : x.labels) {
      if (!Has(needed, label) && !Has(other.labels, label)) result.push_back(label);
    }
    return result;
  };
  a = SumOut(a, alone(a, b));
  b = SumOut(b, alone(b, a));
  // In the order of the result, as far as it is known here.
  Labels kept, summed;
  for (Label label : needed) {
    if (Has(a.labels, label) || Has(b.labels, label)) kept.push_back(label);
  }
  for (Label label : a.labels) {
    if (!Has(needed, label)) summed.push_back(label);
  }
  Labels all = kept;
  all.insert(all.end(), summed.begin(), summed.end());
  Dims axes;
  for (size_t i = 0; i < summed.size(); ++i) axes.push_back(static_cast<int64_t>(kept.size() + i));
  const Expr product = Align(a, all) * Align(b, all);
  return {axes.empty() ? product : Sum(product, Axes(absl::Span<const int64_t>(axes))), kept};
}

// "ab...c": an ellipsis is one label for now.
std::optional<Labels> ParseTerm(std::string_view text) {
  Labels labels;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '.') {
      if (text.substr(i, 3) != "..." || Has(labels, kEllipsis)) return std::nullopt;
      labels.push_back(kEllipsis);
      i += 2;
    } else if (std::isalpha(static_cast<unsigned char>(text[i]))) {
      labels.push_back(text[i]);
    } else {
      return std::nullopt;
    }
  }
  return labels;
}

// The ellipsis as the labels of `count` axes.
Labels Widen(const Labels& labels, int64_t count) {
  Labels result;
  for (Label label : labels) {
    if (label != kEllipsis) {
      result.push_back(label);
      continue;
    }
    for (int64_t i = count - 1; i >= 0; --i) result.push_back(kEllipsis + i);
  }
  return result;
}

struct Formula {
  std::vector<Labels> terms;
  std::optional<Labels> result;
};

std::optional<Formula> Parse(std::string_view text) {
  std::string packed;
  for (char c : text) {
    if (!std::isspace(static_cast<unsigned char>(c))) packed += c;
  }
  Formula formula;
  const size_t arrow = packed.find("->");
  if (arrow != std::string::npos) {
    formula.result = ParseTerm(std::string_view(packed).substr(arrow + 2));
    if (!formula.result) return std::nullopt;
    packed.resize(arrow);
  }
  size_t begin = 0;
  while (true) {
    const size_t comma = packed.find(',', begin);
    const auto term = ParseTerm(std::string_view(packed).substr(begin, comma - begin));
    if (!term) return std::nullopt;
    formula.terms.push_back(*term);
    if (comma == std::string::npos) return formula;
    begin = comma + 1;
  }
}

// Labels that occur once in all terms, by the alphabet, behind the ellipsis.
Labels ImplicitResult(const Formula& formula) {
  std::array<int, kEllipsis + 1> times = {};
  for (const Labels& term : formula.terms) {
    for (Label label : term) ++times[label];
  }
  Labels result;
  if (times[kEllipsis] > 0) result.push_back(kEllipsis);
  for (Label label = 0; label < kEllipsis; ++label) {
    if (times[label] == 1) result.push_back(label);
  }
  return result;
}

}  // namespace

Expr Einsum(std::string_view formula, absl::Span<const Expr> operands, std::optional<DType> given) {
  for (const Expr& x : operands) {
    if (!x.ok()) return x;
  }
  const Expr& first = operands.front();
  const std::optional<Formula> parsed = Parse(formula);
  if (!parsed) {
    return Fail(first,
                "einsum: '{}' is not letters with at most one '...' an operand, separated by ',', "
                "and a result after '->'",
                formula);
  }
  if (parsed->terms.size() != operands.size()) {
    return Fail(first, "einsum: '{}' has {} operands, {} are given", formula, parsed->terms.size(),
                operands.size());
  }
  DType dtype = first.dtype();
  for (const Expr& x : operands) dtype = Promote(dtype, x.dtype());
  if (given) dtype = *given;

  // Ellipses may cover different numbers of axes; they are aligned at the last.
  int64_t widest = 0;
  std::vector<Labelled> factors;
  for (size_t i = 0; i < operands.size(); ++i) {
    const Labels& term = parsed->terms[i];
    const bool ellipsis = Has(term, kEllipsis);
    const int64_t covered =
        operands[i].rank() - static_cast<int64_t>(term.size()) + static_cast<int64_t>(ellipsis);
    if (ellipsis ? covered < 0 : covered != 0) {
      return Fail(first, "einsum: '{}': operand {} has shape {}, which its labels do not fit",
                  formula, i, ShapeText(operands[i].shape()));
    }
    widest = std::max(widest, ellipsis ? covered : 0);
    factors.push_back({Cast(operands[i], SumAccumulator(dtype)), Widen(term, covered)});
  }
  const Labels result = Widen(parsed->result.value_or(ImplicitResult(*parsed)), widest);

  std::array<int64_t, kEllipsis + 64> sizes;
  sizes.fill(-1);
  for (Labelled& factor : factors) {
    for (size_t i = 0; i < factor.labels.size(); ++i) {
      const int64_t size = factor.value.shape()[i];
      int64_t& known = sizes[factor.labels[i]];
      if (known != -1 && known != size && known != 1 && size != 1) {
        return Fail(first, "einsum: '{}': label '{}' has sizes {} and {}", formula,
                    Name(factor.labels[i]), known, size);
      }
      if (known == -1 || known == 1) known = size;
    }
    factor = Diagonals(std::move(factor));
    if (!factor.value.ok()) return factor.value;
  }
  for (size_t i = 0; i < result.size(); ++i) {
    if (sizes[result[i]] == -1 || std::count(result.begin(), result.end(), result[i]) > 1) {
      return Fail(first,
                  "einsum: '{}': label '{}' of the result must occur once in it and in an "
                  "operand",
                  formula, Name(result[i]));
    }
  }

  Labelled product = factors[0];
  for (size_t i = 1; i < factors.size(); ++i) {
    Labels needed = result;
    for (size_t later = i + 1; later < factors.size(); ++later) {
      for (Label label : factors[later].labels) {
        if (!Has(needed, label)) needed.push_back(label);
      }
    }
    product = ContractPair(product, factors[i], needed);
  }
  Labels gone;
  for (Label label : product.labels) {
    if (!Has(result, label)) gone.push_back(label);
  }
  return Cast(Align(SumOut(product, gone), result), dtype);
}

Expr TensorDot(const Expr& a, const Expr& b, absl::Span<const int64_t> a_axes,
               absl::Span<const int64_t> b_axes) {
  if (!a.ok()) return a;
  if (!b.ok()) return b;
  // Where one of two sizes is 1, the other axis is summed by itself.
  Dims a_ones, b_ones;
  for (size_t i = 0; i < std::min(a_axes.size(), b_axes.size()); ++i) {
    const std::optional<int64_t> x = ResolveAxis(a_axes[i], a.rank());
    const std::optional<int64_t> y = ResolveAxis(b_axes[i], b.rank());
    if (!x || !y || a.shape()[*x] == b.shape()[*y]) continue;
    if (a.shape()[*x] == 1) b_ones.push_back(*y);
    if (b.shape()[*y] == 1) a_ones.push_back(*x);
  }
  if (!a_ones.empty() || !b_ones.empty()) {
    const auto summed = [](const Expr& e, const Dims& axes) {
      const Axes over{absl::Span<const int64_t>(axes)};
      return axes.empty() ? e : Cast(Sum(e, over, kKeepDims), e.dtype());
    };
    return TensorDot(summed(a, a_ones), summed(b, b_ones), a_axes, b_axes);
  }
  if (a_axes.size() != b_axes.size()) {
    return Fail(a, "tensordot: {} axes of the first and {} of the second operand", a_axes.size(),
                b_axes.size());
  }
  // Axes of a are 0, 1, ..; those of b follow, or are those that they are summed with.
  Labels left, right, result;
  for (int64_t i = 0; i < a.rank(); ++i) left.push_back(i);
  for (int64_t i = 0; i < b.rank(); ++i) right.push_back(a.rank() + i);
  std::vector<bool> taken(a.rank());
  for (size_t i = 0; i < a_axes.size(); ++i) {
    const std::optional<int64_t> x = ResolveAxis(a_axes[i], a.rank());
    const std::optional<int64_t> y = ResolveAxis(b_axes[i], b.rank());
    if (!x) return AxisError("tensordot", a, a_axes[i]);
    if (!y) return AxisError("tensordot", b, b_axes[i]);
    if (taken[*x] || right[*y] < a.rank()) {
      return Fail(a, "tensordot: an axis occurs twice in [{}] or [{}]", fmt::join(a_axes, ", "),
                  fmt::join(b_axes, ", "));
    }
    if (a.shape()[*x] != b.shape()[*y]) {
      return Fail(a, "tensordot: axis {} of {} and axis {} of {} differ in size", a_axes[i],
                  ShapeText(a.shape()), b_axes[i], ShapeText(b.shape()));
    }
    taken[*x] = true;
    right[*y] = *x;
  }
  for (int64_t i = 0; i < a.rank(); ++i) {
    if (!taken[i]) result.push_back(i);
  }
  for (Label label : right) {
    if (label >= a.rank()) result.push_back(label);
  }
  const DType dtype = Promote(a.dtype(), b.dtype());
  const Labelled product = ContractPair({Cast(a, SumAccumulator(dtype)), left},
                                        {Cast(b, SumAccumulator(dtype)), right}, result);
  return Cast(Align(product, result), dtype);
}

}  // namespace tensord
