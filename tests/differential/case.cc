#include "tests/differential/case.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <random>

#include "core/base/status.h"
#include "core/ir/text.h"

namespace tensord {
namespace {

constexpr std::string_view kValueKinds[] = {"nice", "special", "edges", "bits"};

// Around zero, one, ties, each type's limits, and where a wider float becomes another narrower one.
std::vector<Scalar> MakeEdges(DType dtype) {
  std::vector<Scalar> edges;
  const auto add = [&](const Scalar& value) {
    if (std::find(edges.begin(), edges.end(), value) == edges.end()) edges.push_back(value);
  };
  if (!IsFloat(dtype)) {
    for (int bit = 0; bit < 64; ++bit) {
      for (const uint64_t around : {~uint64_t{0}, uint64_t{0}, uint64_t{1}}) {
        const uint64_t number = (uint64_t{1} << bit) + around;
        add(Scalar::Int(dtype, static_cast<int64_t>(number)));
        add(Scalar::Int(dtype, static_cast<int64_t>(-number)));
      }
    }
    return edges;
  }
  std::vector<double> numbers = {0, 0.25, 0.5, 0.75, 1, 1.5, 2.5, 3.5, 1e-5, 1e5};
  for (const DType other :
       {DType::kFloat8E4M3, DType::kFloat8E5M2, DType::kFloat8E4M3Fnuz, DType::kFloat8E5M2Fnuz,
        DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    const FloatFormat& format = Format(other);
    const double smallest = DecodeFloat(other, 1);
    const double normal = DecodeFloat(other, uint64_t{1} << format.mantissa_bits);
    const double largest = DecodeFloat(other, format.max_code());
    const double step = largest - DecodeFloat(other, format.max_code() - 1);
    for (const double x : {smallest, smallest / 2, smallest * 1.5, normal, normal - smallest,
                           normal - smallest / 2, largest, largest + step / 2, largest + step / 4,
                           largest + step, 1 + std::ldexp(1, -format.mantissa_bits - 1),
                           1 + std::ldexp(3, -format.mantissa_bits - 1)}) {
      numbers.push_back(x);
      numbers.push_back(std::nextafter(x, std::numeric_limits<double>::infinity()));
      numbers.push_back(std::nextafter(x, 0));
    }
  }
  for (const int bits : {7, 8, 15, 16, 24, 31, 32, 53, 63, 64}) {
    const double power = std::ldexp(1, bits);
    numbers.insert(numbers.end(),
                   {power, power - 1, power - 0.5, power + 1, std::nextafter(power, 0),
                    static_cast<double>(std::nextafter(static_cast<float>(power), 0.0F))});
  }
  numbers.push_back(std::numeric_limits<double>::infinity());
  numbers.push_back(std::numeric_limits<double>::quiet_NaN());
  for (const double number : numbers) {
    add(Scalar::Float(dtype, number));
    add(Scalar::Float(dtype, -number));
  }
  return edges;
}

Scalar AnyValue(DType dtype, ValueKind values, std::mt19937_64& random) {
  if (values == ValueKind::kBits && dtype != DType::kBool) {
    const uint64_t bits = random();
    return Scalar::FromBits(dtype, bits >> (64 - 8 * ItemSize(dtype)));
  }
  const bool special = values == ValueKind::kSpecial && random() % 3 == 0;
  if (IsFloat(dtype)) {
    constexpr double kInf = std::numeric_limits<double>::infinity();
    constexpr double kSpecial[] = {
        0.0, -0.0, 1.0,  -1.0,  kInf, -kInf, std::numeric_limits<double>::quiet_NaN(),
        0.5, 2.0,  1e-5, 1e-40, 3e38, 1e5,   1e-300};
    if (special) return Scalar::Float(dtype, kSpecial[random() % std::size(kSpecial)]);
    return Scalar::Float(dtype, static_cast<double>(random() >> 11) / 9007199254740992.0 * 4 - 2);
  }
  if (dtype == DType::kBool) return Scalar::Int(dtype, static_cast<int64_t>(random() % 2));
  if (special) {
    if (random() % 2 == 0) return Scalar::Int(dtype, static_cast<int64_t>(random()));
    return Scalar::Int(dtype, random() % 2 == 0 ? IntMin(dtype) : IntMax(dtype));
  }
  return Scalar::Int(dtype, static_cast<int64_t>(random() % 12) - (IsSigned(dtype) ? 4 : 0));
}

std::vector<int64_t> Numbers(std::string_view text) {
  std::vector<int64_t> numbers;
  for (const absl::string_view part :
       absl::StrSplit(absl::string_view(text.data(), text.size()), ' ', absl::SkipEmpty())) {
    int64_t number = 0;
    if (absl::SimpleAtoi(part, &number)) numbers.push_back(number);
  }
  return numbers;
}

// What follows `key` on the header line that begins with it.
std::string_view HeaderLine(std::string_view text, std::string_view key) {
  const size_t begin = text.find(key);
  if (begin == std::string_view::npos) return "";
  const size_t end = text.find('\n', begin);
  return text.substr(begin + key.size(), end - begin - key.size());
}

}  // namespace

const std::vector<Scalar>& EdgeValues(DType dtype) {
  static const auto& all = *new std::vector<std::vector<Scalar>>([] {
    std::vector<std::vector<Scalar>> edges(kNumDTypes);
    for (int i = static_cast<int>(DType::kBool); i < static_cast<int>(DType::kIndex); ++i) {
      edges[static_cast<size_t>(i)] = MakeEdges(static_cast<DType>(i));
    }
    return edges;
  }());
  return all[static_cast<size_t>(dtype)];
}

std::string PrintCase(const Case& test) {
  return fmt::format("# seed {} {}\n# overwrites {}\n{}", test.seed,
                     kValueKinds[static_cast<int>(test.values)], fmt::join(test.overwrites, " "),
                     Print(test.outputs));
}

absl::StatusOr<Case> ParseCase(std::string_view text) {
  Case test;
  TD_ASSIGN_OR_RETURN(test.outputs, Parse(text, test.graph));
  const std::string_view seed = HeaderLine(text, "# seed ");
  const std::vector<int64_t> numbers = Numbers(seed);
  if (!numbers.empty()) test.seed = static_cast<uint64_t>(numbers[0]);
  for (size_t kind = 0; kind < std::size(kValueKinds); ++kind) {
    if (seed.find(kValueKinds[kind]) != std::string_view::npos) {
      test.values = static_cast<ValueKind>(kind);
    }
  }
  test.overwrites = Numbers(HeaderLine(text, "# overwrites "));
  test.overwrites.resize(test.outputs.size(), Program::kFresh);
  return test;
}

absl::StatusOr<std::vector<const Node*>> ParamsOf(Case& test) {
  std::vector<const Node*> params;
  const auto add = [&](size_t slot, const Node* node) {
    if (params.size() <= slot) params.resize(slot + 1, nullptr);
    const bool free = params[slot] == nullptr || params[slot] == node;
    params[slot] = node;
    return free;
  };
  for (const Node* node : TopologicalOrder(test.outputs)) {
    if (node->op == Op::kParam && !add(static_cast<size_t>(node->slot()), node)) {
      return InvalidArgument("two Params have slot {}", node->slot());
    }
  }
  for (size_t i = 0; i < test.outputs.size(); ++i) {
    if (test.overwrites[i] == Program::kFresh) continue;
    const Node* output = test.outputs[i];
    const Node* param = test.graph.Param(test.overwrites[i], output->dtype, output->shape);
    if (!add(static_cast<size_t>(test.overwrites[i]), param)) {
      return InvalidArgument("output {} does not fit slot {}", i, test.overwrites[i]);
    }
  }
  for (size_t slot = 0; slot < params.size(); ++slot) {
    if (params[slot] == nullptr) return InvalidArgument("no Param has slot {}", slot);
  }
  return params;
}

absl::StatusOr<Program> ProgramOf(Case& test) {
  TD_ASSIGN_OR_RETURN(const std::vector<const Node*> params, ParamsOf(test));
  Program program;
  program.name = "differential";
  std::vector<const Node*> roots = test.outputs;
  roots.insert(roots.end(), params.begin(), params.end());
  const std::vector<const Node*> copies = CopyTo(program.graph, roots);
  for (size_t i = 0; i < test.outputs.size(); ++i) {
    program.outputs.push_back({copies[i], test.overwrites[i]});
  }
  program.inputs.assign(copies.begin() + static_cast<std::ptrdiff_t>(test.outputs.size()),
                        copies.end());
  for (const Node* node : TopologicalOrder(copies)) {
    if (node->op == Op::kVariable) program.variables.push_back(node);
  }
  return program;
}

std::vector<HostTensor> InputsOf(const Case& test, absl::Span<const Node* const> params) {
  std::vector<HostTensor> inputs;
  for (const Node* param : params) {
    std::mt19937_64 random(test.seed * 1000 + static_cast<uint64_t>(param->slot()));
    HostTensor input{param->dtype, {param->shape.begin(), param->shape.end()}, {}};
    const std::vector<Scalar>* edges =
        test.values == ValueKind::kEdges ? &EdgeValues(param->dtype) : nullptr;
    const uint64_t first = random();
    for (int64_t e = 0; e < NumElements(param->shape); ++e) {
      input.values.push_back(edges == nullptr
                                 ? AnyValue(param->dtype, test.values, random)
                                 : (*edges)[(first + static_cast<uint64_t>(e)) % edges->size()]);
    }
    inputs.push_back(std::move(input));
  }
  return inputs;
}

absl::flat_hash_map<std::string, int64_t> VariablesOf(const Case& test) {
  absl::flat_hash_map<std::string, int64_t> values;
  for (const Node* node : TopologicalOrder(test.outputs)) {
    if (node->op != Op::kVariable) continue;
    const uint64_t count = static_cast<uint64_t>(node->ints[1] - node->ints[0]) + 1;
    std::mt19937_64 random(test.seed + node->text.size());
    const uint64_t above = count == 0 ? random() : random() % count;
    values[std::string(node->text)] =
        static_cast<int64_t>(static_cast<uint64_t>(node->ints[0]) + above);
  }
  return values;
}

}  // namespace tensord
