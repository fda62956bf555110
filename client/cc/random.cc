// Session's random numbers.
#include "client/cc/session.h"
#include "client/cc/trace.h"
#include "core/base/check.h"
#include "core/base/status.h"
#include "core/tensor/create.h"
#include "core/tensor/elementwise.h"
#include "core/tensor/movement.h"

namespace tensord::client {
namespace {

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

absl::Status Session::Seed(uint64_t seed) {
  auto upload = [this](uint64_t words) {
    return Upload({reinterpret_cast<const char*>(&words), sizeof(words)}, DType::kUint32, {2});
  };
  TD_ASSIGN_OR_RETURN(StateRef key, upload(seed));
  TD_ASSIGN_OR_RETURN(StateRef counter, upload(0));
  absl::MutexLock lock(&mu_);
  // Captured programs know the generator by these two tensors, so they stay and get new values.
  for (auto [state, fresh] : {std::pair(&random_key_, key), std::pair(&random_counter_, counter)}) {
    if (!*state) {
      *state = std::make_shared<TensorState>();
      (*state)->dtype = fresh->dtype;
      (*state)->stored_dtype = fresh->stored_dtype;
      (*state)->shape = fresh->shape;
    }
    (*state)->value = fresh->value;
    (*state)->value->owner = *state;
  }
  random_drawn_ = 0;
  return absl::OkStatus();
}

uint64_t& Session::RandomDrawn() {
  Trace* trace = CurrentTrace(*this);
  return trace ? trace->drawn : random_drawn_;
}

std::pair<RandomState, std::vector<Session::ValueRef>> Session::NextRandom() {
  std::vector<ValueRef> parents = {VersionOf(random_key_), VersionOf(random_counter_)};
  const Expr key(&graph_, NodeOf(*parents[0]));
  const Expr counter(&graph_, NodeOf(*parents[1]));
  if (Trace* trace = CurrentTrace(*this)) trace->draws = true;
  return {{.key = key, .counter = Advance(counter, RandomDrawn())}, std::move(parents)};
}

StateRef Session::Random(uint64_t count, const Draw& draw) {
  absl::MutexLock lock(&mu_);
  if (graph_.size() > compact_at_) CompactGraph();
  const auto [state, parents] = NextRandom();
  const Drawn drawn = draw(state);
  if (!drawn.value.ok()) return Failed(drawn.value.status());
  RandomDrawn() += count;
  const ValueRef value = NewExpression(drawn.value, parents);
  if (const std::vector<int64_t>* devices = DefaultDevices()) value->devices = *devices;
  return NewState(value);
}

void Session::AdvanceRandom() {
  const uint64_t drawn = std::exchange(RandomDrawn(), 0);
  if (drawn == 0) return;
  const ValueRef counter = random_counter_->value;
  const Expr advanced = Advance(Expr(&graph_, NodeOf(*counter)), drawn);
  TD_CHECK(advanced.ok(), "the counter can always be moved on");
  Replace(random_counter_, NewExpression(advanced, {&counter, 1}));
}

}  // namespace tensord::client
