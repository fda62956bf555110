#include "core/tensor/view.h"

#include <algorithm>

#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/movement.h"

namespace tensord {

std::optional<ViewPath> ViewPath::Between(const Node* base, const Node* view) {
  ViewPath path;
  for (const Node* node = view; node != base; node = node->src[0]) {
    switch (node->op) {
      case Op::kReshape:
      case Op::kPermute:
      case Op::kFlip:
      case Op::kShrink:
      case Op::kSlide:
      case Op::kDetach:
        break;
      default:
        return std::nullopt;
    }
    // Sizes that vary are codes, which mean the same in every graph.
    Dims ints(node->ints.begin(), node->ints.end()), source;
    if (HasSizes(node->op)) {
      ints.clear();
      for (const Dim& dim : AttributeOf(node)) ints.push_back(SizeOf(dim));
    }
    for (const Dim& dim : ShapeOf(node->src[0])) source.push_back(SizeOf(dim));
    path.steps_.push_back({.op = node->op, .ints = std::move(ints), .source = std::move(source)});
  }
  std::reverse(path.steps_.begin(), path.steps_.end());
  return path;
}

void ViewPath::Append(const ViewPath& further) {
  steps_.insert(steps_.end(), further.steps_.begin(), further.steps_.end());
}

std::optional<std::pair<ViewPath, ViewPath>> ViewPath::AtDetach() const {
  const auto last = std::find_if(steps_.rbegin(), steps_.rend(),
                                 [](const Step& step) { return step.op == Op::kDetach; });
  if (last == steps_.rend()) return std::nullopt;
  std::pair<ViewPath, ViewPath> parts;
  parts.first.steps_.assign(steps_.begin(), last.base());
  parts.second.steps_.assign(last.base(), steps_.end());
  return parts;
}

Expr ViewPath::Read(const Expr& base) const {
  Expr view = base;
  for (const Step& step : steps_) view = Apply(step.op, {view}, step.ints);
  return view;
}

Expr ViewPath::Back(const Expr& view) const {
  Expr x = view;
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    Dims ints;
    switch (step->op) {
      case Op::kReshape:
        x = Reshape(x, step->source);
        break;
      case Op::kPermute:
        ints.resize(step->ints.size());
        for (size_t i = 0; i < ints.size(); ++i) ints[step->ints[i]] = static_cast<int64_t>(i);
        x = Permute(x, ints);
        break;
      case Op::kFlip:
        x = Flip(x, step->ints);
        break;
      case Op::kShrink:
        for (size_t i = 0; i < step->source.size(); ++i) {
          const absl::StatusOr<int64_t> after = SizeMinus(step->source[i], step->ints[2 * i + 1]);
          if (!after.ok()) return Expr(&view.graph(), after.status());
          ints.insert(ints.end(), {step->ints[2 * i], *after});
        }
        x = Apply(Op::kPad, {x}, ints);
        break;
      case Op::kSlide:
        ints = step->ints;
        ints[4] = step->source[step->ints[0]];
        x = Apply(Op::kUnslide, {x}, ints);
        break;
      default:  // Detach
        break;
    }
  }
  return x;
}

Expr ViewPath::Write(const Expr& base, const Expr& value) const {
  if (!base.ok()) return base;
  if (!value.ok()) return value;
  const Expr written = Back(value);
  if (SizeProduct(value.shape()) == SizeProduct(base.shape())) return written;
  const Expr here = Back(Full(base.graph(), value.shape(), true, DType::kBool));
  return Where(here, written, base);
}

}  // namespace tensord
