#include "core/rules/user_kernel.h"

#include <gtest/gtest.h>

#include <string>

#include "core/base/status.h"
#include "core/ir/text.h"
#include "core/ir/user_kernel.h"

namespace tensord {
namespace {

// A call of a kernel with inputs float32[2,3] and int32[4] and the given outputs.
absl::Status Read(std::string_view body, std::string_view name = "k",
                  std::vector<std::vector<int64_t>> shapes = {{2, 3}}) {
  Graph graph;
  const Node* inputs[] = {graph.Param(0, DType::kFloat32, {2, 3}),
                          graph.Param(1, DType::kInt32, {4})};
  std::vector<user_kernel::Output> outputs;
  for (const auto& shape : shapes) outputs.push_back({DType::kFloat32, shape});
  const std::string text = user_kernel::TextOf(name, body);
  const Node* call = graph.Make(
      {.op = Op::kUserKernel, .src = inputs, .ints = user_kernel::IntsOf(outputs), .text = text});
  return ReadUserKernel(call).status();
}

// Ranges, the output, input 0, and the offset of [r0, r1] in both.
constexpr std::string_view kStart = R"(%0 = Range index id=0 size=2 loop
%1 = Range index id=1 size=3 loop
%2 = Param float32 [6] slot=0
%3 = Param float32 [6] slot=1
%4 = Param int32 [4] slot=2
%5 = Const index 3
%6 = Mul index %0 %5
%7 = Add index %6 %1
%8 = Const index 1
%9 = Const float32 1
%10 = Range index id=2 size=4 reduce
)";

TEST(UserKernelTest, LegalBodies) {
  const std::string_view kBodies[] = {
      "%20 = Load float32 %3 %7\n%21 = Store %2 %7 %20\n",
      // A loop backwards.
      "%20 = Const index 5\n%21 = Sub index %20 %7\n%22 = Store %2 %21 %9\n",
      // A column: the gate proves the read.
      "%20 = CmpLt bool %8 %1\n%21 = Sub index %7 %8\n%22 = Load float32 %3 %21 %20\n"
      "%23 = Store %2 %7 %22\n",
      // An index from data, behind a gate.
      "%20 = Load int32 %4 %1\n%21 = Const int32 0\n%22 = CmpLt bool %20 %21\n%23 = Const bool "
      "true\n"
      "%24 = Xor bool %22 %23\n%25 = Const int32 6\n%26 = CmpLt bool %20 %25\n%27 = And bool %24 "
      "%26\n"
      "%28 = Cast index %20\n%29 = Load float32 %3 %28 %27\n%30 = Store %2 %7 %29\n",
      // Clamped data needs none.
      "%20 = Load int32 %4 %1\n%21 = Const int32 0\n%22 = Max int32 %20 %21\n%23 = Const int32 5\n"
      "%24 = Min int32 %22 %23\n%25 = Cast index %24\n%26 = Load float32 %3 %25\n"
      "%27 = Store %2 %7 %26\n",
      "%20 = Load int32 %4 %10\n%21 = Cast float32 %20\n%22 = Fold float32 %21 %10 max\n"
      "%23 = Store %2 %7 %22\n",
  };
  for (const std::string_view body : kBodies) {
    std::string text = std::string(kStart) + std::string(body);
    const size_t last = text.rfind('%', text.rfind("= Store"));
    text +=
        fmt::format("%99 = Sink {}\nreturn %99\n", text.substr(last, text.find(' ', last) - last));
    EXPECT_TRUE(Read(text).ok()) << Read(text) << text;
  }
}

struct Illegal {
  const char *body, *error;
};

const Illegal kIllegal[] = {
    {"%20 = Add index %7 %8\n%21 = Load float32 %3 %20\n%22 = Store %2 %7 %21\nS %22",
     "input 0 is read at 3*r0 + r1 + 1, which is in [1, 6] and not proven to stay within [0, 6)"},
    {"%20 = CmpLt bool %0 %8\n%21 = Sub index %7 %8\n%22 = Load float32 %3 %21 %20\n"
     "%23 = Store %2 %7 %22\nS %23",
     "input 0 is read at 3*r0 + r1 - 1"},
    {"%20 = Load int32 %4 %1\n%21 = Cast index %20\n%22 = Load float32 %3 %21\n"
     "%23 = Store %2 %7 %22\nS %23",
     "not proven to stay within"},
    {"%20 = Add index %7 %8\n%21 = Store %2 %20 %9\nS %21",
     "output 0 is stored at 3*r0 + r1 + 1: that is in [1, 6], outside of its 6 elements"},
    {"%20 = Store %2 %1 %9\nS %20", "output 0 is stored at r1: 3 of its 6 elements are stored"},
    {"%20 = Add index %0 %1\n%21 = Store %2 %20 %9\nS %21",
     "output 0 is stored at r0 + r1: two turns of its loops store to one place"},
    {"%20 = Load float32 %3 %7\n%21 = Store %2 %1 %20\nS %21",
     "the value depends on r0, so each place would be stored 2 times"},
    {"%20 = Load int32 %4 %1\n%21 = Cast index %20\n%22 = Store %2 %21 %9\nS %22",
     "the index must be made of loop ranges"},
    {"%20 = Store %2 %7 %9\n%21 = Const float32 2\n%22 = Store %2 %7 %21\nS %20 %22",
     "output 0 has two Stores"},
    {"%20 = CmpLt bool %0 %8\n%21 = Store %2 %7 %9 %20\nS %21", "a Store has no gate"},
    {"S", "output 0 is never stored"},
    {"%20 = Param float32 [6] slot=3\n%21 = Load float32 %20 %7\n%22 = Store %2 %7 %21\nS %22",
     "buffer 3 is unknown: it has 1 outputs and 2 inputs"},
    {"%20 = Param float32 [7] slot=0\n%21 = Store %20 %7 %9\nS %21",
     "buffer 0 is float32[6], the body has float32[7]"},
    {"%20 = Param int32 [6] slot=1\n%21 = Load int32 %20 %7\n%22 = Cast float32 %21\n"
     "%23 = Store %2 %7 %22\nS %23",
     "buffer 1 is float32[6], the body has int32[6]"},
    {"%20 = Load float32 %2 %7\n%21 = Store %2 %7 %20\nS %21", "it reads output 0"},
    {"%20 = Store %3 %7 %9\n%21 = Store %2 %7 %9\nS %20 %21", "it stores to input 0"},
    {"%20 = Const int32 1\n%21 = Store %2 %7 %20\nS %21", "kernel spec, store-operands"},
    {"%20 = Load int32 %4 %10\n%21 = Cast float32 %20\n%22 = Store %2 %7 %21\nS %22",
     "reduce-ranges-close"},
    {"%20 = Fold float32 %9 %1 add\n%21 = Store %2 %7 %20\nS %21",
     "it reduces over r1, which is no reduce range"},
    {"%20 = Range index id=4 size=4 grid\n%21 = Store %2 %7 %9\n%22 = Load int32 %4 %20\n"
     "%23 = Cast float32 %22\n%24 = Store %2 %7 %23\nS %24",
     "wants a loop or reduce range"},
    {"%20 = Range index id=4 size=4 loop\n%21 = Running float32 %9 %20 add exclusive=0\n"
     "%22 = Store %2 %7 %21\nS %22",
     "the op is not legal in a kernel"},
    {"%20 = Iota float32 [6]\nS", "not an integer"},
    {"%20 = Variable int32 \"n\" min=0 max=2\n%21 = Cast float32 %20\n%22 = Store %2 %7 %21\nS %22",
     "the op is not legal in a kernel"},
    {"%20 = Fma float32 %9 %9 %9\n%21 = Store %2 %7 %20\nS %21", "not legal in a kernel"},
    {"%20 = Const index 281474976710657\n%21 = Mul index %0 %20\n%22 = Load float32 %3 %21\n"
     "%23 = Store %2 %7 %22\nS %23",
     "beyond 2^48"},
    {"%20 = FloorDiv index %7 %0\n%21 = Load float32 %3 %20\n%22 = Store %2 %7 %21\nS %22",
     "an index is divided by positive constants only"},
    {"%20 = Cast index %9\n%21 = Load float32 %3 %20\n%22 = Store %2 %7 %21\nS %22",
     "a float32 does not become an index"},
    {"%20 = Cast float32 %7\n%21 = Store %2 %7 %20\nS %21", "an index becomes an integer only"},
    {"%20 = Range index id=4 size=4611686018427387904 reduce\n%21 = Fold float32 %9 %20 add\n"
     "%22 = Store %2 %7 %21\nS %22",
     "turns"},
    {"return %2", "one Sink over Stores"},
    {"%20 = Frobnicate %2\nS %20", "unknown op"},
};

TEST(UserKernelTest, IllegalBodiesAreRefusedWithTheRule) {
  for (const Illegal& c : kIllegal) {
    std::string body = c.body;
    if (const size_t sink = body.rfind('S'); body.find("return") == std::string::npos) {
      body = body.substr(0, sink) + "%99 = Sink" + body.substr(sink + 1) + "\nreturn %99\n";
    }
    const absl::Status status = Read(std::string(kStart) + body);
    EXPECT_FALSE(status.ok()) << c.body;
    EXPECT_NE(Message(status).find(c.error), std::string_view::npos) << status << "\n" << c.body;
  }
}

TEST(UserKernelTest, OutputsShareTheirLoops) {
  const std::string rows = std::string(kStart) +
                           "%20 = Param float32 [2] slot=1\n%21 = Store %20 %0 %9\n"
                           "%22 = Store %2 %7 %9\n%99 = Sink %21 %22\nreturn %99\n";
  EXPECT_TRUE(Read(rows, "k", {{2, 3}, {2}}).ok()) << Read(rows, "k", {{2, 3}, {2}});
  const std::string apart = std::string(kStart) +
                            "%20 = Param float32 [3] slot=1\n%21 = Store %20 %1 %9\n"
                            "%22 = Param float32 [2] slot=0\n%23 = Store %22 %0 %9\n"
                            "%99 = Sink %21 %23\nreturn %99\n";
  EXPECT_NE(Message(Read(apart, "k", {{2}, {3}})).find("loops that do not nest"),
            std::string_view::npos)
      << Read(apart, "k", {{2}, {3}});
}

TEST(UserKernelTest, SizeIsLimited) {
  std::string deep = std::string(kStart), wide = std::string(kStart);
  deep += "%20 = Load float32 %3 %7\n";
  wide += "%20 = Load float32 %3 %7\n";
  int last = 20, end = 20;
  for (int i = 0; i < 300; ++i)
    deep += fmt::format("%{} = Exp float32 %{}\n", last + 1, last), ++last;
  for (int i = 0; i < 2100; ++i) {
    wide += fmt::format("%{} = Const float32 {}\n", ++end, i);
  }
  std::vector<int> level;
  for (int i = 21; i <= end; ++i) level.push_back(i);
  while (level.size() > 1) {
    std::vector<int> next;
    for (size_t i = 0; i + 1 < level.size(); i += 2) {
      wide += fmt::format("%{} = Add float32 %{} %{}\n", ++end, level[i], level[i + 1]);
      next.push_back(end);
    }
    if (level.size() % 2 == 1) next.push_back(level.back());
    level = next;
  }
  const auto finish = [](std::string text, int value) {
    return text + fmt::format("%9000 = Store %2 %7 %{}\n%9001 = Sink %9000\nreturn %9001\n", value);
  };
  EXPECT_EQ(Message(Read(finish(deep, last))),
            "kernel 'k': its expressions are more than 256 ops deep");
  EXPECT_NE(Message(Read(finish(wide, end))).find("nodes, more than 2048"), std::string_view::npos);
  EXPECT_NE(Message(Read(finish(std::string(300 << 10, ' '), 9))).find("bytes, more than"),
            std::string_view::npos);
}

// Shared parts of a gate are looked at once for each way that leads to them.
TEST(UserKernelTest, GatesAreLimited) {
  std::string text = std::string(kStart) + "%20 = CmpLt bool %8 %1\n%21 = CmpLt bool %0 %8\n";
  int gate = 20, other = 21;
  for (int i = 0; i < 40; ++i) {
    text += fmt::format("%{} = And bool %{} %{}\n%{} = Or bool %{} %{}\n", other + 1, gate, other,
                        other + 2, gate, other);
    gate = other + 1;
    other += 2;
  }
  text += fmt::format(
      "%9000 = Load float32 %3 %7 %{}\n%9001 = Store %2 %7 %9000\n%9002 = Sink %9001\n"
      "return %9002\n",
      gate);
  EXPECT_NE(Message(Read(text)).find("more than 32 comparisons"), std::string_view::npos)
      << Read(text);
}

TEST(UserKernelTest, NamesAreIdentifiers) {
  for (const std::string_view name : {"", "1k", "a b", "a-b", "\xc3\xa4"}) {
    EXPECT_NE(Message(Read("return", name)).find("a kernel's name is letters"),
              std::string_view::npos)
        << name;
  }
  EXPECT_FALSE(Read("return", std::string(65, 'k')).ok());
}

}  // namespace
}  // namespace tensord
