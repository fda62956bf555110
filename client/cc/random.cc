// Session's random numbers.
#include <algorithm>
#include <utility>

#include "client/cc/session.h"
#include "client/cc/trace.h"
#include "core/base/check.h"
#include "core/base/status.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/movement.h"

namespace tensord::client {
namespace {

thread_local GeneratorRef current_generator;

// The 64-bit counter, uint32 [2], moved on.
Expr Advance(const Expr& counter, uint64_t by) {
  if (by == 0) return counter;
  auto word = [&counter](uint64_t bits) {
    return Constant(counter.graph(), static_cast<uint32_t>(bits), DType::kUint32);
  };
  const Expr low = Add(Select(counter, 0, 0), word(by));
  const Expr carry = Cast(Lt(low, word(by)), DType::kUint32);
  const Expr high = Add(Add(Select(counter, 0, 1), word(by >> 32)), carry);
  return Stack({low, high}, 0);
}

}  // namespace

GeneratorScope::GeneratorScope(GeneratorRef generator)
    : outer_(std::exchange(current_generator, std::move(generator))) {}
GeneratorScope::~GeneratorScope() { current_generator = std::move(outer_); }

absl::Status Session::Seed(uint64_t seed, GeneratorRef& generator) {
  auto upload = [this](uint64_t words) {
    return Upload({reinterpret_cast<const char*>(&words), sizeof(words)}, DType::kUint32, {2});
  };
  TD_ASSIGN_OR_RETURN(StateRef key, upload(seed));
  TD_ASSIGN_OR_RETURN(StateRef counter, upload(0));
  absl::MutexLock lock(&mu_);
  if (!generator) {
    generator = std::make_shared<RandomGenerator>();
    generator->session = weak_from_this();
  }
  // Captured programs know a generator by these two tensors, so they stay and get new values.
  for (auto [state, fresh] : {std::pair(&generator->key, key), {&generator->counter, counter}}) {
    if (!*state) {
      *state = std::make_shared<TensorState>();
      (*state)->dtype = fresh->dtype;
      (*state)->stored_dtype = fresh->stored_dtype;
      (*state)->shape = fresh->shape;
    }
    (*state)->value = fresh->value;
    (*state)->value->owner = *state;
  }
  std::erase_if(drawn_, [&](const auto& drawn) { return drawn.first == generator; });
  return absl::OkStatus();
}

std::pair<RandomState, std::vector<Session::ValueRef>> Session::NextRandom(
    const GeneratorRef& generator, uint64_t count) {
  std::vector<ValueRef> parents = {VersionOf(generator->key), VersionOf(generator->counter)};
  const Expr key(&graph_, NodeOf(*parents[0]));
  const Expr counter(&graph_, NodeOf(*parents[1]));
  Trace* trace = CurrentTrace(*this);
  DrawnNumbers& all = trace ? trace->drawn : drawn_;
  auto drawn = std::find_if(all.begin(), all.end(),
                            [&](const auto& entry) { return entry.first == generator; });
  if (drawn == all.end()) drawn = all.insert(all.end(), {generator, 0});
  const uint64_t before = std::exchange(drawn->second, drawn->second + count);
  return {{.key = key, .counter = Advance(counter, before)}, std::move(parents)};
}

StateRef Session::Random(uint64_t count, const Draw& draw) {
  const GeneratorRef& generator = current_generator ? current_generator : generator_;
  if (generator->session.lock().get() != this) {
    return Failed(InvalidArgument(
        "a generator of one session for tensors of another: make one after connecting"));
  }
  absl::MutexLock lock(&mu_);
  if (graph_.size() > compact_at_) CompactGraph();
  const auto [state, parents] = NextRandom(generator, count);
  const Drawn drawn = draw(state);
  if (!drawn.value.ok()) return Failed(drawn.value.status());
  const ValueRef value = NewExpression(drawn.value, parents);
  if (const std::vector<int64_t>* devices = DefaultDevices()) value->devices = *devices;
  return NewState(value);
}

bool Session::HasDrawn() {
  return std::any_of(drawn_.begin(), drawn_.end(), [](const auto& drawn) { return drawn.second; });
}

void Session::AdvanceRandom() {
  Trace* trace = CurrentTrace(*this);
  for (auto& [generator, drawn] : trace ? trace->drawn : drawn_) {
    const uint64_t count = std::exchange(drawn, 0);
    if (count == 0) continue;
    const ValueRef counter = generator->counter->value;
    const Expr advanced = Advance(Expr(&graph_, NodeOf(*counter)), count);
    TD_CHECK(advanced.ok(), "the counter can always be moved on");
    Replace(generator->counter, NewExpression(advanced, {&counter, 1}));
  }
  if (!trace) drawn_.clear();
}

}  // namespace tensord::client
