// Connectionist temporal classification, by the recurrences of Graves et al., "Connectionist
// Temporal Classification" (2006): alpha sums the paths up to a time and a state, beta those from
// there on.
#include <limits>
#include <vector>

#include "core/tensor/build.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/index.h"
#include "core/tensor/join.h"
#include "core/tensor/loop.h"
#include "core/tensor/loss.h"
#include "core/tensor/movement.h"
#include "core/tensor/pad.h"
#include "core/tensor/reduce.h"
#include "core/tensor/scatter.h"

namespace tensord {
namespace {

// Stands for the logarithm of 0: sums and differences of it are numbers.
constexpr double kNever = -1e30;

// States are the labels with a blank before, between and after, hence 2 longest + 1 of them.
struct Alignment {
  Expr scores;  // [time, n, states]: of what a state emits
  Expr state;   // int64 [n, states]: its class
  Expr skips;   // bool [n, states]: whether a path may come from two states before
  Expr steps;   // int64 [n, 1]: how many times count
  Expr ends;    // bool [n, states]: whether a path may end there

  int64_t time() const { return scores.shape()[0]; }
};

Expr Shifted(const Expr& x, int64_t by, Number filler) {
  std::vector<PadAmount> amounts(x.rank());
  amounts.back() = {by, -by};
  return Pad(x, amounts, filler);
}

// The sum over what may come next to each other: `from` itself, one state off and, where `skips`,
// two; `by` says in which direction.
Expr Joined(const Expr& from, int64_t by, const Expr& skips) {
  const Expr skipped = Where(skips, Shifted(from, 2 * by, kNever), kNever);
  return Maximum(LogSumExp(Stack({{from, Shifted(from, by, kNever), skipped}}, 0), 0), kNever);
}

Expr AlphaStep(const Alignment& a, const Expr& t, const Expr& alpha, const Expr& score) {
  const Expr next = Maximum(Joined(alpha, 1, a.skips) + score, kNever);
  return Where(Gt(a.steps, t), next, alpha);
}

Expr FirstAlpha(const Alignment& a) {
  const Expr index = IndexAlong(a.state, 1);
  const Expr first = Where(Lt(index, 2), Select(a.scores, 0, 0), kNever);
  return Where(Eq(a.steps, 0), Where(Eq(index, 0), FullLike(first, 0), kNever), first);
}

// log of the probability of each sample's targets, [n].
Expr LogLikelihood(const Alignment& a) {
  const Expr later = Shrink(a.scores, 0, 1, a.time());
  const auto step = [&](const Expr& i, absl::Span<const Expr> states, absl::Span<const Expr> rows) {
    return ScanStep{.next = {AlphaStep(a, i + 1, states[0], rows[0])}, .out = {}};
  };
  const Expr last = ScanLoop(a.time() - 1, {FirstAlpha(a)}, {later}, step).states[0];
  return LogSumExp(Where(a.ends, last, kNever), 1);
}

// The probabilities of the states at each time, given the targets: [time, n, states].
Expr Posterior(const Alignment& a, const Expr& log_likelihood) {
  const auto forward = [&](const Expr& i, absl::Span<const Expr> states,
                           absl::Span<const Expr> rows) {
    const Expr next = AlphaStep(a, i, states[0], rows[0]);
    const Expr alpha = Where(Eq(i, 0), states[0], next);
    return ScanStep{.next = {alpha}, .out = {alpha}};
  };
  const Expr alphas = ScanLoop(a.time(), {FirstAlpha(a)}, {a.scores}, forward).stacked[0];
  const Expr end = Where(a.ends, FullLike(Select(a.scores, 0, 0), 0), kNever);
  const Expr comes = Shifted(Cast(a.skips, DType::kInt32), -2, 0);  // seen from two before
  const auto backward = [&](const Expr& i, absl::Span<const Expr> states,
                            absl::Span<const Expr> rows) {
    // The state is the sum of paths after time i, without what is emitted at it.
    const Expr after = Where(Lt(i, a.steps - 1), states[0], end);
    const Expr here = Maximum(after + rows[0], kNever);
    return ScanStep{.next = {Joined(here, -1, AsBool(comes))}, .out = {after}};
  };
  const Expr afters = ScanLoop(a.time(), {end}, {a.scores}, backward, /*reverse=*/true).stacked[0];
  return Exp(Minimum(alphas + afters - Unsqueeze(log_likelihood, 1), 0));
}

// d of -log_likelihood by the logits from which log_probs is by LogSoftmax, which is also what
// PyTorch gives for log_probs itself: it takes for granted that they are normalised.
Expr GradientOf(const Alignment& a, const Expr& log_probs, const Expr& log_likelihood,
                const Expr& impossible, double instead) {
  const Expr of_states = Posterior(a, log_likelihood);
  const Expr of_classes =
      ScatterAlong(FullLike(log_probs, 0), 2, BroadcastTo(Unsqueeze(a.state, 0), of_states.shape()),
                   of_states, ScatterKind::kAdd);
  const Expr t = IndexAlong(log_probs, 0, DType::kInt64);
  const Expr slope = Where(Unsqueeze(impossible, 1), instead, Exp(log_probs) - of_classes);
  return Where(Lt(t, Unsqueeze(a.steps, 0)), slope, 0);
}

}  // namespace

Expr CtcLoss(const Expr& log_probs, const Expr& targets, const Expr& input_lengths,
             const Expr& target_lengths, const CtcOptions& options, Reduction reduction) {
  constexpr std::string_view kName = "ctc_loss";
  for (const Expr* each : {&log_probs, &targets, &input_lengths, &target_lengths}) {
    if (!each->ok()) return *each;
  }
  if (log_probs.rank() != 3 || targets.rank() != 2 || log_probs.shape()[1] != targets.shape()[0]) {
    return Fail(log_probs,
                "{}: log_probs {} and targets {} are not [time, n, classes] and [n, longest]",
                kName, ShapeText(log_probs.shape()), ShapeText(targets.shape()));
  }
  const int64_t time = log_probs.shape()[0], n = log_probs.shape()[1];
  const int64_t classes = log_probs.shape()[2], longest = targets.shape()[1];
  if (options.blank < 0 || options.blank >= classes) {
    return Fail(log_probs, "{}: blank {} is none of {} classes", kName, options.blank, classes);
  }
  if (input_lengths.shape() != Shape({n}) || target_lengths.shape() != Shape({n})) {
    return Fail(log_probs, "{}: lengths {} and {} for {} samples", kName,
                ShapeText(input_lengths.shape()), ShapeText(target_lengths.shape()), n);
  }
  if (time == 0) return Fail(log_probs, "{}: log_probs have no time steps", kName);
  const int64_t states = 2 * longest + 1;
  const Expr labels = Cast(targets, DType::kInt64);
  const Expr blanks = FullLike(Unsqueeze(labels, 2), options.blank);
  const Expr last = Full(log_probs.graph(), {n, 1}, options.blank, DType::kInt64);
  const Expr pairs = Reshape(Cat({{blanks, Unsqueeze(labels, 2)}}, 2), {n, 2 * longest});
  const Expr state = Contiguous(Cat({{pairs, last}}, 1));
  const Expr f = Cast(log_probs, ComputeDType(log_probs.dtype()));
  const Expr end = Cast(Unsqueeze(target_lengths, 1), DType::kInt64) * 2;
  const Expr index = IndexAlong(state, 1, DType::kInt64);
  const Alignment a = {
      .scores = Maximum(
          Contiguous(GatherAlong(f, 2, BroadcastTo(Unsqueeze(state, 0), Dims{time, n, states}))),
          kNever),
      .state = state,
      // A label may follow the one before without a blank if they differ.
      .skips = LogicalAnd(Ne(state, options.blank), Ne(state, Shifted(state, 2, options.blank))),
      .steps = Cast(Unsqueeze(input_lengths, 1), DType::kInt64),
      .ends = LogicalOr(Eq(index, end), Eq(index, end - 1))};
  const Expr log_likelihood = LogLikelihood(a);
  const Expr impossible = Lt(log_likelihood, kNever / 2);
  const double other = options.zero_infinity ? 0.0 : std::numeric_limits<double>::infinity();
  const double slope = options.zero_infinity ? 0.0 : std::numeric_limits<double>::quiet_NaN();
  // Nothing, with the derivatives of the loss, which can be derived again.
  const Expr slopes = GradientOf(a, f, log_likelihood, impossible, slope);
  const Expr nothing = Sum(WithSlope(FullLike(f, 0), f, slopes), {0, 2});
  Expr loss = Detach(Where(impossible, other, -log_likelihood)) + nothing;
  loss = Cast(loss, LeastUpperFloat(log_probs.dtype()));
  if (reduction == Reduction::kMean) loss = loss / Maximum(target_lengths, 1);
  return reduction == Reduction::kMean  ? Mean(loss)
         : reduction == Reduction::kSum ? Sum(loss)
                                        : loss;
}

}  // namespace tensord
