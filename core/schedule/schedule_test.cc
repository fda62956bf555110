#include "core/schedule/schedule.h"

#include <gtest/gtest.h>

#include <random>

#include "core/ir/text.h"
#include "core/schedule/lower.h"
#include "core/schedule/memory.h"

namespace tensord {
namespace {

TEST(PlanMemory, KeepsWhatLivesTogetherApart) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<Lifetime> lifetimes;
    uint64_t sum = 0;
    for (int i = 0; i < 40; ++i) {
      const int first = static_cast<int>(random() % 50);
      lifetimes.push_back({random() % 5000, first, first + static_cast<int>(random() % 10)});
      sum += (lifetimes.back().bytes + 63) / 64 * 64;
    }
    const uint64_t total = PlanMemory(absl::MakeSpan(lifetimes), 64);
    EXPECT_LE(total, sum);
    for (size_t i = 0; i < lifetimes.size(); ++i) {
      const Lifetime& a = lifetimes[i];
      EXPECT_EQ(a.offset % 64, 0u);
      EXPECT_LE(a.offset + a.bytes, total);
      for (size_t j = 0; j < i; ++j) {
        const Lifetime& b = lifetimes[j];
        const bool together = a.first <= b.last && b.first <= a.last;
        const bool overlap = a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
        EXPECT_FALSE(together && overlap && a.bytes > 0 && b.bytes > 0) << round;
      }
    }
  }
}

TEST(PlanMemory, ReusesWhatIsOver) {
  std::vector<Lifetime> lifetimes = {{1000, 0, 1}, {1000, 2, 3}, {1000, 4, 5}};
  EXPECT_EQ(PlanMemory(absl::MakeSpan(lifetimes), 64), 1000u);
}

// The index of the only load of a tensor graph's value, as text.
std::string LoadIndex(std::string_view text) {
  Graph tensors, kernel;
  auto roots = Parse(text, tensors);
  EXPECT_TRUE(roots.ok()) << roots.status();
  const Node* root = (*roots)[0];
  std::vector<Lowering::Storage> storages;
  storages.reserve(4);
  Lowering lowering(
      kernel,
      [&](const Node* tensor) -> const Lowering::Storage* {
        if (tensor->op != Op::kParam) return nullptr;
        Layout layout{std::vector<int64_t>(tensor->shape.size())};
        int64_t stride = 1;
        for (size_t i = tensor->shape.size(); i-- > 0; stride *= tensor->shape[i]) {
          layout.strides[i] = stride;
        }
        storages.push_back({tensor->slot(), layout, NumElements(tensor->shape)});
        return &storages.back();
      },
      [](const Node*) { return false; });
  lowering.Value(root, lowering.OutputRanges(root));
  EXPECT_EQ(lowering.accesses().size(), 1u);
  return Print({lowering.accesses()[0].load->src[1]});
}

bool HasDivision(const std::string& text) { return text.find("Floor") != std::string::npos; }

TEST(Lowering, MovementBecomesPlainStrides) {
  const struct {
    const char* name;
    const char* graph;
  } cases[] = {
      {"permute and back through a reshape",
       "%0 = Param float32 [4,6,5] slot=0\n"
       "%1 = Permute float32 [5,4,6] %0 axes=2,0,1\n"
       "%2 = Reshape float32 [5,24] %1\n"
       "%3 = Reshape float32 [5,4,6] %2\n"
       "return %3\n"},
      {"windows of a pool",
       "%0 = Param float32 [10] slot=0\n"
       "%1 = Reshape float32 [10,1] %0\n"
       "%2 = Expand float32 [10,3] %1\n"
       "%3 = Slide float32 [4,3] %2 axis=0 along=1 stride=2 dilation=1 size=4\n"
       "return %3\n"},
      {"splitting and merging axes",
       "%0 = Param float32 [24] slot=0\n"
       "%1 = Reshape float32 [2,3,4] %0\n"
       "%2 = Reshape float32 [6,4] %1\n"
       "%3 = Reshape float32 [24] %2\n"
       "return %3\n"},
      {"flip of a slice",
       "%0 = Param float32 [9] slot=0\n"
       "%1 = Shrink float32 [5] %0 pairs=2:7\n"
       "%2 = Flip float32 [5] %1 axes=0\n"
       "return %2\n"},
  };
  for (const auto& c : cases) EXPECT_FALSE(HasDivision(LoadIndex(c.graph))) << c.name;
}

Program ProgramOf(std::string_view text, std::vector<int64_t> overwrites) {
  Program program;
  program.name = "test";
  auto roots = Parse(text, program.graph);
  EXPECT_TRUE(roots.ok()) << roots.status();
  for (const Node* node : TopologicalOrder(*roots)) {
    if (node->op != Op::kParam) continue;
    const size_t slot = static_cast<size_t>(node->slot());
    if (program.inputs.size() <= slot) program.inputs.resize(slot + 1);
    program.inputs[slot] = node;
  }
  for (size_t i = 0; i < roots->size(); ++i)
    program.outputs.push_back({(*roots)[i], overwrites[i]});
  return program;
}

int Copies(const Schedule& schedule) {
  int copies = 0;
  for (const Schedule::Step& step : schedule.steps) copies += step.kernel == Schedule::Step::kCopy;
  return copies;
}

TEST(MakeSchedule, OverwritesInPlaceWhereEachElementIsReadWhereItIsStored) {
  auto schedule =
      MakeSchedule(ProgramOf("%0 = Param float32 [8] slot=0\n"
                             "%1 = Exp float32 [8] %0\n"
                             "return %1\n",
                             {0}));
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_EQ(schedule->steps.size(), 1u);
  EXPECT_EQ(schedule->scratch_bytes, 0u);
  EXPECT_EQ(schedule->outputs, std::vector<int>({0}));
}

TEST(MakeSchedule, OverwritesThroughACopyWhereElementsMove) {
  auto schedule =
      MakeSchedule(ProgramOf("%0 = Param float32 [8] slot=0\n"
                             "%1 = Flip float32 [8] %0 axes=0\n"
                             "return %1\n",
                             {0}));
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_EQ(Copies(*schedule), 1);
}

TEST(MakeSchedule, ReadersOfAnInputRunBeforeItIsOverwritten) {
  // The sum must see the old values, so its kernel comes first.
  auto schedule =
      MakeSchedule(ProgramOf("%0 = Param float32 [200000] slot=0\n"
                             "%1 = Exp float32 [200000] %0\n"
                             "%2 = Reduce float32 [1] %0 add axes=0\n"
                             "return %1 %2\n",
                             {0, Program::kFresh}));
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  ASSERT_EQ(schedule->steps.size(), 2u);
  EXPECT_EQ(Copies(*schedule), 0);
  const std::vector<int>& last = schedule->steps.back().buffers;
  EXPECT_EQ(schedule->outputs[0], 0);
  EXPECT_EQ(std::count(last.begin(), last.end(), schedule->outputs[1]), 0);
}

TEST(MakeSchedule, EqualKernelsAreOne) {
  auto schedule =
      MakeSchedule(ProgramOf("%0 = Param float32 [8] slot=0\n"
                             "%1 = Param float32 [8] slot=1\n"
                             "%2 = Exp float32 [8] %0\n"
                             "%3 = Exp float32 [8] %1\n"
                             "return %2 %3\n",
                             {Program::kFresh, Program::kFresh}));
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_EQ(schedule->steps.size(), 2u);
  EXPECT_EQ(schedule->kernels.size(), 1u);
}

TEST(MakeSchedule, NothingToDo) {
  auto schedule =
      MakeSchedule(ProgramOf("%0 = Param float32 [0,3] slot=0\n"
                             "%1 = Exp float32 [0,3] %0\n"
                             "return %1\n",
                             {Program::kFresh}));
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_TRUE(schedule->steps.empty());
}

// Output 0 is x doubled, output 1 the sums of its rows; of these only the second is used.
constexpr std::string_view kUserKernel = R"(%0 = Param float32 [2,3] slot=0
%1 = Permute float32 [3,2] %0 axes=1,0
%2 = Permute float32 [2,3] %1 axes=1,0
%3 = Exp float32 [2,3] %2
%4 = UserKernel %3 outputs=float32[2,3],float32[2] "both\n%0 = Range index id=0 size=2 loop\n%1 = Range index id=1 size=3 loop\n%2 = Range index id=2 size=SIZE reduce\n%3 = Const index 3\n%4 = Mul index %0 %3\n%5 = Add index %4 %1\n%6 = Add index %4 %2\n%7 = Param float32 [6] slot=0\n%8 = Param float32 [2] slot=1\n%9 = Param float32 [6] slot=2\n%10 = Load float32 %9 %5\n%11 = Add float32 %10 %10\n%12 = Store %7 %5 %11\n%13 = Load float32 %9 %6\n%14 = Fold float32 %13 %2 add\n%15 = Store %8 %0 %14\n%16 = Sink %12 %15\nreturn %16\n"
%5 = UserKernelResult float32 [2] %4 slot=1
%6 = Neg float32 [2] %5
return %0 %6
)";

absl::StatusOr<Schedule> ScheduleUserKernel(std::string_view size) {
  std::string text(kUserKernel);
  text.replace(text.find("SIZE"), 4, size);
  Program program;
  const auto roots = Parse(text, program.graph);
  EXPECT_TRUE(roots.ok()) << roots.status();
  program.inputs = {(*roots)[0]};
  program.outputs = {{(*roots)[1]}};
  return MakeSchedule(program);
}

TEST(UserKernelSchedule, IsAKernelOfItsOwn) {
  const absl::StatusOr<Schedule> schedule = ScheduleUserKernel("3");
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  std::vector<std::string> names;
  for (const Schedule::Step& step : schedule->steps) {
    names.push_back(schedule->kernels[step.kernel]->name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"map_2_3", "user_both_2_3_over_3", "map_2"}));
  // What it reads and both of its results, the one that nobody reads as well.
  int temporaries = 0;
  for (const Schedule::Buffer& buffer : schedule->buffers) {
    temporaries += buffer.kind == Schedule::Kind::kTemporary;
  }
  EXPECT_EQ(temporaries, 3);
  EXPECT_EQ(schedule->kernels[1]->loops.size(), 2u);
}

TEST(UserKernelSchedule, RefusesWhatIsNotProven) {
  const absl::Status status = ScheduleUserKernel("4").status();
  EXPECT_NE(status.message().find("kernel 'both': input 0 is read at 3*r0 + r2"),
            absl::string_view::npos)
      << status;
}

}  // namespace
}  // namespace tensord
