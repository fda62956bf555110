#include "client/cc/ops.h"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "client/cc/client.h"
#include "client/cc/fake_daemon.h"

namespace tensord {
namespace {

using Floats = std::vector<float>;

class OpsTest : public ::testing::Test {
 protected:
  OpsTest() {
    auto connected = Client::Connect(daemon_.address());
    EXPECT_TRUE(connected.ok()) << connected.status();
    client_ = *std::move(connected);
  }

  Tensor Vector(const Floats& data) const {
    return client_->FromHost(data, {static_cast<int64_t>(data.size())});
  }
  Tensor Matrix() const { return Reshape(Vector({1, 2, 3, 4, 5, 6}), {2, 3}); }
  static Floats Data(const Tensor& tensor) {
    absl::StatusOr<Floats> data = Cast(tensor, DType::kFloat32).ToHost<float>();
    EXPECT_TRUE(data.ok()) << data.status();
    return data.ok() ? *data : Floats{};
  }

  FakeDaemon daemon_;
  std::unique_ptr<Client> client_;
};

// One case for each kind of parameter, of result and of operator.
TEST_F(OpsTest, FunctionsMeanWhatTheyMeanInCore) {
  const Tensor x = Matrix(), v = Vector({1, 2, 3}), i = Cast(Vector({0, 2}), DType::kInt32);
  const Tensor n = Cast(Vector({7, -7}), DType::kInt32);
  const struct {
    const char* name;
    Tensor made;
    Floats expected;
  } kCases[] = {
      {"defaults", Sum(x), {21}},
      {"braced axes", Sum(x, {0, 1}, kKeepDims), {21}},
      {"one axis", Sum(x, 1), {6, 15}},
      {"braced list", Permute(x, {1, 0}), {1, 4, 2, 5, 3, 6}},
      {"two lists", MoveAxes(x, {0}, {1}), {1, 4, 2, 5, 3, 6}},
      {"list of optionals", ShrinkTo(x, {std::nullopt, 1}), {1, 4}},
      {"list of structs", Pad(v, {{.before = 1}}), {0, 1, 2, 3}},
      {"map", Rearrange(v, "(a b) -> b a", {{"a", 3}}), {1, 2, 3}},
      {"options", MaxPool(v, {.kernel = {2}, .stride = {1}}), {2, 3}},
      {"options with a tensor", Covariance(v, {.correction = 0, .weights = v}), {5.0f / 9}},
      {"tensor absent", Linear(v, x), {14, 32}},
      {"tensor present", Linear(v, x, Vector({1, 1})), {15, 33}},
      {"several tensors", Cat({v, Vector({4})}, 0), {1, 2, 3, 4}},
      {"formula", Einsum("ij,j->i", {x, v}), {14, 32}},
      {"one tensor twice", Outer(v, v), {1, 2, 3, 2, 4, 6, 3, 6, 9}},
      {"index", Index(x, {1, Slice{.step = -1}}), {6, 5, 4}},
      {"index by tensors", Index(x, {Ellipsis{}, i}), {1, 3, 4, 6}},
      {"write", SetIndex(v, {Slice{.begin = 2}}, Vector({9})), {1, 2, 9}},
      {"tensor second", Polygamma(1, Vector({1})), {1.644934f}},
      {"number first", Maximum(2, v), {2, 2, 3}},
      {"optional number", Clamp(v, 2, std::nullopt), {2, 2, 3}},
      {"named results", TopK(v, 2).values, {3, 2}},
      {"their others", TopK(v, 2).indices, {2, 1}},
      {"results as operands",
       LuSolve(LuFactor(Reshape(Vector({2, 0, 0, 4}), {2, 2})), Reshape(Vector({2, 4}), {2, 1})),
       {1, 1}},
      {"made from nothing", Logspace(*client_, 0, 2, 3, 10, DType::kFloat32), {1, 10, 100}},
      {"of the client", client_->Arange(0, 6, 2), {0, 2, 4}},
      {"evenly spaced", client_->Linspace(0, 1, 3), {0, 0.5f, 1}},
      {"identity", client_->Eye(1, 2), {1, 0}},
      {"+", 1 + v + v, {3, 5, 7}},
      {"-", -(1 - v), {0, 1, 2}},
      {"*", 2 * v * v, {2, 8, 18}},
      {"/", 6 / v / 2, {3, 1.5f, 1}},
      {"%", n % 4, {3, 1}},
      {"&", n & 5, {5, 1}},
      {"|", n | 8, {15, -7}},
      {"^", n ^ 1, {6, -8}},
      {"~", ~n, {-8, 6}},
      {"<<", n << 1, {14, -14}},
      {">>", n >> 1, {3, -4}},
      {"==", v == 2, {0, 1, 0}},
      {"!=", v != Vector({1, 0, 3}), {0, 1, 0}},
      {"<", 2 < v, {0, 0, 1}},
      {"<=", v <= 2, {1, 1, 0}},
      {">", v > 2, {0, 0, 1}},
      {">=", 2 >= v, {1, 1, 0}},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.name);
    ASSERT_TRUE(c.made.ok()) << c.made.status();
    const Floats data = Data(c.made);
    ASSERT_EQ(data.size(), c.expected.size());
    for (size_t k = 0; k < data.size(); ++k) EXPECT_NEAR(data[k], c.expected[k], 1e-5);
  }
  static_assert(std::same_as<decltype(v == v), Tensor>);
  static_assert(!std::convertible_to<Tensor, bool>);
}

TEST_F(OpsTest, PiecesAreAsManyAsTheFunctionMakes) {
  const Tensor x = Matrix();
  const absl::StatusOr<std::vector<Tensor>> rows = Unbind(x, 0);
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_EQ(rows->size(), 2u);
  EXPECT_EQ(Data((*rows)[1]), (Floats{4, 5, 6}));
  EXPECT_EQ(Split(x, {1, 1}, 1).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Unbind(x, 5).status().code(), absl::StatusCode::kOutOfRange);
}

TEST_F(OpsTest, MovementIsAViewAndArithmeticIsNot) {
  const std::pair<const char*, std::function<Tensor(const Tensor&)>> kViews[] = {
      {"Reshape", [](const Tensor& x) { return Reshape(x, {-1}); }},
      {"Permute",
       [](const Tensor& x) {
         return Permute(x, {1, 0});
       }},
      {"Flip", [](const Tensor& x) { return Flip(x, {0}); }},
      {"Select", [](const Tensor& x) { return Select(x, 0, 1); }},
      {"Diagonal", [](const Tensor& x) { return Diagonal(x); }},
      {"Index",
       [](const Tensor& x) {
         return Index(x, {1, NewAxis{}});
       }},
      {"Unbind", [](const Tensor& x) { return (*Unbind(x, 0))[1]; }},
      {"Detach", [](const Tensor& x) { return Detach(x); }},
  };
  for (const auto& [name, take] : kViews) {
    SCOPED_TRACE(name);
    const Tensor x = Contiguous(Reshape(Vector({1, 2, 3, 4}), {2, 2}));
    const Tensor view = take(x);
    ASSERT_TRUE(view.Assign(view * 0).ok());
    EXPECT_NE(Data(x), (Floats{1, 2, 3, 4}));
  }
  const Tensor x = Vector({1, 2});
  const Tensor same = Cast(x, DType::kFloat32), repeated = Repeat(x, {1});
  ASSERT_TRUE(same.Assign(same * 0).ok());
  ASSERT_TRUE(repeated.Assign(repeated * 0).ok());
  EXPECT_EQ(Data(x), (Floats{1, 2}));
}

TEST_F(OpsTest, ErrorsAreThoseOfTheFirstOperandThatHasOne) {
  const Tensor bad = Matrix() + Vector({1, 2}), none = Cat(std::vector<Tensor>{}, 0);
  EXPECT_EQ(none.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Cat({Vector({1}), bad}, 0).status(), bad.status());
  EXPECT_EQ((Vector({1}) + none).status(), none.status());
  EXPECT_EQ(Relu(none).ToHost<float>().status(), none.status());
  EXPECT_EQ(none.Wait(), none.status());
  EXPECT_EQ(Realize({{none, bad}}), none.status());
  EXPECT_EQ(TopK(bad, 1).indices.status(), bad.status());
  EXPECT_EQ(Unbind(bad, 0).status(), bad.status());
}

TEST_F(OpsTest, LoopsTakeFunctionsOfTensors) {
  const Tensor x = Vector({1}), xs = Vector({1, 2, 3});
  const auto doubled = WhileLoop(
      {x}, [](absl::Span<const Tensor> s) { return s[0] < 100; },
      [](absl::Span<const Tensor> s) { return std::vector<Tensor>{s[0] * 2}; });
  ASSERT_TRUE(doubled.ok()) << doubled.status();
  EXPECT_EQ(Data((*doubled)[0]), Floats{128});

  const auto counted = ForLoop(4, {x}, [](const Tensor& i, absl::Span<const Tensor> s) {
    return std::vector<Tensor>{s[0] + Cast(i, DType::kFloat32)};
  });
  ASSERT_TRUE(counted.ok()) << counted.status();
  EXPECT_EQ(Data((*counted)[0]), Floats{7});

  const auto scanned = [&](bool reverse) {
    return ScanLoop(
        3, {x}, {xs},
        [](const Tensor&, absl::Span<const Tensor> s, absl::Span<const Tensor> rows)
            -> tensors::ScanStep { return {.next = {s[0] + rows[0]}, .out = {s[0] * 10}}; },
        reverse);
  };
  ASSERT_TRUE(scanned(false).ok()) << scanned(false).status();
  EXPECT_EQ(Data(scanned(false)->states[0]), Floats{7});
  EXPECT_EQ(Data(scanned(false)->stacked[0]), (Floats{10, 20, 40}));
  EXPECT_EQ(Data(scanned(true)->stacked[0]), (Floats{60, 40, 10}));

  EXPECT_EQ(ForLoop(-1, {x}, {}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ScanLoop(2, {x}, {xs}, {}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(OpsTest, DerivativesSaidByHand) {
  const Tensor x = Vector({1.5f, 2.5f});
  const Tensor y =
      WithGradient(Floor(x), {x}, [](const Tensor& g) { return std::vector<Tensor>{g * 3}; });
  const auto both = WithGradients({x * 0, Floor(x)}, {x}, [](absl::Span<const Tensor> g) {
    return std::vector<Tensor>{g[0] * 5 + g[1] * 7};
  });
  ASSERT_TRUE(both.ok()) << both.status();
  for (const auto& [loss, expected] : {std::pair(Sum(y), 3.0f), std::pair(Sum((*both)[0]), 5.0f),
                                       std::pair(Sum((*both)[1]), 7.0f)}) {
    const auto gradients = loss.Gradient({x});
    ASSERT_TRUE(gradients.ok()) << gradients.status();
    EXPECT_EQ(Data((*gradients)[0]), (Floats{expected, expected}));
  }
  EXPECT_EQ(Data(y), (Floats{1, 2}));
}

std::string Text(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

// How often each name is followed by a parenthesis at the start of a declaration, by a reading of
// the headers that owes nothing to bind_operations.py.
std::map<std::string, int> Declared(std::string text, const std::string& operand) {
  text = std::regex_replace(text, std::regex("#define(?:[^\n]*\\\\\n)+[^\n]*"), "");
  const std::regex declaration(
      "(?:^|\\n)(?:inline )?[a-zA-Z][\\w:<>, ]*[\\w>] (\\w+)\\(([^;{]*?)\\)(?: const)? *[;{]");
  std::map<std::string, int> names;
  for (std::sregex_iterator it(text.begin(), text.end(), declaration), end; it != end; ++it) {
    if (std::regex_search(it->str(), std::regex("\\b" + operand + "\\b"))) ++names[(*it)[1]];
  }
  // A binary function is three: of two tensors, and with a number on either side.
  const std::regex macro("\\nTD_(?:BINARY|COMPARISON)\\((\\w+)\\)");
  for (std::sregex_iterator it(text.begin(), text.end(), macro), end; it != end; ++it) {
    names[(*it)[1]] += 3;
  }
  return names;
}

TEST(Bindings, EveryFunctionOfCoreTensorHasOne) {
  // Declared in the implementation's headers, or below such a line in others.
  const std::regex internal("Internal\\s+(?://\\s*)?to\\s+core/tensor|Not\\s+for\\s+front\\s+ends");
  const std::string part = "// ---- for files that make functions of these";
  std::string bound;
  for (const char* header : {"operations.h", "functional.h"}) {
    bound += Text(std::string("client/cc/") + header);
  }
  // Those of the class.
  bound += std::regex_replace(Text("client/cc/tensor.h"), std::regex("\n +"), "\n");
  const std::map<std::string, int> ours = Declared(bound, "Tensor|Client");
  int functions = 0;
  std::istringstream headers(Text("client/cc/core_headers.txt"));
  for (std::string path; headers >> path;) {
    std::string text = Text(path);
    if (std::regex_search(text.substr(0, text.find("#pragma once")), internal)) continue;
    if (size_t at = text.find(part); at != std::string::npos) text.resize(at);
    for (const auto& [name, count] : Declared(text, "Expr")) {
      const auto found = ours.find(name);
      EXPECT_GE(found == ours.end() ? 0 : found->second, count)
          << path << ": the C++ client lacks " << name << ", or an overload of it. It is made by "
          << "client/cc/bind_operations.py if it stands at the start of a line in the namespace "
          << "tensord and takes what client/cc/call.h knows; else write it in "
          << "client/cc/functional.h and add it to BY_HAND. What is no operation but a part of "
          << "others goes below a line '" << part << "'.";
      functions += count;
    }
  }
  EXPECT_GT(functions, 400) << "the headers were not read as they are written";
}

}  // namespace
}  // namespace tensord
