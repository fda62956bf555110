// Rearrange: a formula of names as reshapes and a permutation.
#include <algorithm>
#include <optional>
#include <vector>

#include "core/tensor/arrange.h"
#include "core/tensor/build.h"
#include "core/tensor/movement.h"

namespace tensord {
namespace {

constexpr std::string_view kRest = "...";

// One side: each axis is the names that share it. An axis of size 1 has none.
struct Side {
  std::vector<std::vector<std::string>> axes;
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& axis : axes) names.insert(names.end(), axis.begin(), axis.end());
    return names;
  }
};

absl::StatusOr<Side> ParseSide(std::string_view text) {
  Side side;
  bool open = false;
  size_t i = 0;
  const auto add = [&](std::string name) {
    if (open) {
      side.axes.back().push_back(std::move(name));
    } else {
      side.axes.push_back({std::move(name)});
    }
  };
  while (i < text.size()) {
    const char c = text[i];
    if (c == ' ') {
      ++i;
    } else if (c == '(' && !open) {
      open = true;
      side.axes.emplace_back();
      ++i;
    } else if (c == ')' && open) {
      open = false;
      ++i;
    } else if (text.substr(i, 3) == kRest) {
      add(std::string(kRest));
      i += 3;
    } else if (c == '1' && (i + 1 == text.size() || text[i + 1] == ' ' || text[i + 1] == ')')) {
      if (!open) side.axes.emplace_back();
      ++i;
    } else {
      size_t end = i;
      while (end < text.size() &&
             (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '_')) {
        ++end;
      }
      if (end == i || std::isdigit(static_cast<unsigned char>(c)) != 0) {
        return InvalidArgument("rearrange: '{}' cannot stand where it does in '{}'", c, text);
      }
      add(std::string(text.substr(i, end - i)));
      i = end;
    }
  }
  if (open) return InvalidArgument("rearrange: a bracket of '{}' stays open", text);
  std::vector<std::string> names = side.Names();
  std::sort(names.begin(), names.end());
  if (auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end()) {
    return InvalidArgument("rearrange: '{}' occurs twice in '{}'", *twice, text);
  }
  return side;
}

// Replaces ... by names of its axes.
void Spell(Side& side, int64_t count, bool found) {
  std::vector<std::string> rest;
  for (int64_t i = 0; i < count; ++i) rest.push_back(fmt::format("...{}", i));
  for (size_t i = 0; i < side.axes.size(); ++i) {
    auto& axis = side.axes[i];
    const auto place = std::find(axis.begin(), axis.end(), kRest);
    if (place == axis.end()) continue;
    if (axis.size() == 1 && !found) {  // each of them an axis of its own
      side.axes.erase(side.axes.begin() + static_cast<std::ptrdiff_t>(i));
      for (size_t k = rest.size(); k-- > 0;) {
        side.axes.insert(side.axes.begin() + static_cast<std::ptrdiff_t>(i), {rest[k]});
      }
    } else {
      axis.insert(axis.erase(place), rest.begin(), rest.end());
    }
    return;
  }
}

bool RestInBracket(std::string_view text) {
  const size_t at = text.find(kRest);
  if (at == std::string_view::npos) return false;
  const std::string_view before = text.substr(0, at);
  const size_t open = before.rfind('('), close = before.rfind(')');
  return open != std::string_view::npos && (close == std::string_view::npos || close < open);
}

}  // namespace

Expr Rearrange(const Expr& x, std::string_view formula,
               const std::map<std::string, int64_t>& sizes) {
  if (!x.ok()) return x;
  const size_t arrow = formula.find("->");
  if (arrow == std::string_view::npos || formula.find("->", arrow + 2) != std::string_view::npos) {
    return Fail(x, "rearrange: '{}' needs one ->", formula);
  }
  const std::string_view left = formula.substr(0, arrow), right = formula.substr(arrow + 2);
  absl::StatusOr<Side> from = ParseSide(left), to = ParseSide(right);
  if (!from.ok()) return Expr(&x.graph(), from.status());
  if (!to.ok()) return Expr(&x.graph(), to.status());
  if (RestInBracket(left)) {
    return Fail(x, "rearrange: ... cannot stand in brackets on the left of '{}'", formula);
  }
  std::vector<std::string> before = from->Names(), after = to->Names();
  std::sort(before.begin(), before.end());
  std::sort(after.begin(), after.end());
  if (before != after) {
    return Fail(x, "rearrange: the two sides of '{}' must have the same names", formula);
  }
  const bool has_rest = std::binary_search(before.begin(), before.end(), kRest);
  const int64_t rest = x.rank() - static_cast<int64_t>(from->axes.size()) + (has_rest ? 1 : 0);
  if (rest < 0 || (!has_rest && rest != 0)) {
    return Fail(x, "rearrange: '{}' does not fit shape {}", formula, ShapeText(x.shape()));
  }
  Spell(*from, rest, false);
  Spell(*to, rest, RestInBracket(right));
  for (const auto& [name, size] : sizes) {
    if (!std::binary_search(before.begin(), before.end(), name)) {
      return Fail(x, "rearrange: '{}' does not occur in '{}'", name, formula);
    }
    if (size < 0) return Fail(x, "rearrange: the size of '{}' is {}", name, size);
  }

  // All names as axes of their own.
  std::map<std::string, int64_t> size_of, place_of;
  Dims apart;
  for (size_t i = 0; i < from->axes.size(); ++i) {
    const int64_t size = x.shape()[i];
    const std::string* unknown = nullptr;
    int64_t known = 1;
    for (const std::string& name : from->axes[i]) {
      if (const auto given = sizes.find(name); given != sizes.end()) {
        size_of[name] = given->second;
        if (given->second > kMaxElements / std::max<int64_t>(known, 1)) known = -1;
        if (known >= 0) known *= given->second;
      } else if (unknown == nullptr) {
        unknown = &name;
      } else {
        return Fail(x, "rearrange: give the size of '{}' or '{}' in '{}'", *unknown, name, formula);
      }
    }
    if (unknown != nullptr && known > 0 && size % known == 0) {
      size_of[*unknown] = size / known;
      known = size;
    }
    if (known != size || (unknown != nullptr && !size_of.contains(*unknown))) {
      return Fail(x, "rearrange: axis {} of {} does not split as '{}' says", i,
                  ShapeText(x.shape()), formula);
    }
    for (const std::string& name : from->axes[i]) {
      place_of[name] = static_cast<int64_t>(apart.size());
      apart.push_back(size_of.at(name));
    }
  }
  Dims order, together;
  for (const auto& axis : to->axes) {
    int64_t size = 1;
    for (const std::string& name : axis) {
      order.push_back(place_of.at(name));
      size *= size_of.at(name);
    }
    together.push_back(size);
  }
  return Reshape(Permute(Reshape(x, apart), order), together);
}

}  // namespace tensord
