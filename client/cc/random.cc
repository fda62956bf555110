// Session's random numbers.
#include <algorithm>
#include <atomic>
#include <utility>

#include "client/cc/session.h"
#include "client/cc/trace.h"
#include "core/base/check.h"
#include "core/base/status.h"
#include "core/tensor/create.h"
#include "core/tensor/custom_gradient.h"
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

// Random numbers in a function that is being mapped over a batch, by this thread.
struct MappedDraws {
  uint64_t number;         // of the function; they grow
  int64_t first_stand_in;  // slot of the first that can stand for something of an example
  struct OfGenerator {
    GeneratorRef generator;
    StateRef counter;    // stands for that of an example
    uint64_t drawn = 0;  // by each
  };
  Randomness randomness;
  std::vector<OfGenerator> generators;  // that were drawn from, if each example has its own numbers
};
thread_local std::vector<MappedDraws> mapped;

// The innermost mapped function whose examples have numbers of their own.
MappedDraws* Innermost() {
  const auto found = std::find_if(mapped.rbegin(), mapped.rend(), [](const MappedDraws& draws) {
    return draws.randomness == Randomness::kDifferent;
  });
  return found == mapped.rend() ? nullptr : &*found;
}

// That of each of `size` examples, which draw `each` numbers one after another: uint32 [size, 2].
Expr Counters(const Expr& counter, uint64_t each, int64_t size) {
  const auto word = [&](int64_t i) { return Cast(Select(counter, 0, i), DType::kUint64); };
  const Expr first = BitwiseOr(ShiftLeft(word(1), 32), word(0));
  const Expr number = Arange(counter.graph(), 0, size, 1, DType::kUint64);
  const Expr all = number * static_cast<int64_t>(each) + first;
  return Stack({Cast(BitwiseAnd(all, 0xFFFFFFFF), DType::kUint32),
                Cast(ShiftRight(all, 32), DType::kUint32)},
               1);
}

}  // namespace

GeneratorScope::GeneratorScope(GeneratorRef generator)
    : outer_(std::exchange(current_generator, std::move(generator))) {}
GeneratorScope::~GeneratorScope() { current_generator = std::move(outer_); }

bool IsMapping() { return !mapped.empty(); }
uint64_t CurrentMapping() { return mapped.empty() ? 0 : mapped.back().number; }

std::optional<int64_t> StandInsSince(uint64_t mapping) {
  for (const MappedDraws& draws : mapped) {
    if (draws.number > mapping) return draws.first_stand_in;
  }
  return std::nullopt;
}

void Session::BeginMapped(Randomness randomness) {
  static std::atomic<uint64_t> numbers = 0;  // relaxed: only has to grow within a thread
  absl::MutexLock lock(&mu_);
  const Expr first = StandIn(Constant(graph_, 0, DType::kInt32));
  mapped.push_back({.number = numbers.fetch_add(1, std::memory_order_relaxed) + 1,
                    .first_stand_in = first.node()->slot(),
                    .randomness = randomness,
                    .generators = {}});
}

absl::StatusOr<std::vector<std::pair<StateRef, StateRef>>> Session::EndMapped(int64_t size) {
  absl::MutexLock lock(&mu_);
  const MappedDraws draws = std::move(mapped.back());
  mapped.pop_back();
  std::vector<std::pair<StateRef, StateRef>> counters;
  for (const MappedDraws::OfGenerator& own : draws.generators) {
    const auto [state, parents] =
        NextRandom(own.generator, own.drawn * static_cast<uint64_t>(size));
    const Expr all = Counters(state.counter, own.drawn, size);
    TD_RETURN_IF_ERROR(all.status());
    counters.emplace_back(own.counter, NewState(NewExpression(all, parents)));
  }
  return counters;
}

absl::Status Session::CheckRandom() const {
  const bool refused = std::any_of(mapped.begin(), mapped.end(), [](const MappedDraws& draws) {
    return draws.randomness == Randomness::kError;
  });
  if (!refused) return absl::OkStatus();
  return FailedPrecondition(
      "vmap: the function draws random numbers; say randomness='different' for numbers of its own "
      "for each example, or 'same'");
}

absl::Status Session::Seed(uint64_t seed) { return Seed(seed, generator_); }

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
  generator->seed = seed;
  generator->drawn = 0;
  std::erase_if(drawn_, [&](const auto& drawn) { return drawn.first == generator; });
  return absl::OkStatus();
}

std::pair<RandomState, std::vector<Session::ValueRef>> Session::NextRandom(
    const GeneratorRef& generator, uint64_t count) {
  RestoreRandom(*generator);
  std::vector<ValueRef> parents = {VersionOf(generator->key), VersionOf(generator->counter)};
  const Expr key(&graph_, NodeOf(*parents[0]));
  const Expr counter(&graph_, NodeOf(*parents[1]));
  if (MappedDraws* draws = Innermost()) {
    auto own = std::find_if(draws->generators.begin(), draws->generators.end(),
                            [&](const auto& each) { return each.generator == generator; });
    if (own == draws->generators.end()) {
      StateRef stand_in = NewState(NewExpression(StandIn(counter), {}));
      own = draws->generators.insert(own, {generator, std::move(stand_in)});
    }
    const ValueRef& of_example = own->counter->value;
    parents.push_back(of_example);
    const uint64_t before = std::exchange(own->drawn, own->drawn + count);
    return {{.key = key, .counter = Advance(Expr(&graph_, NodeOf(*of_example)), before)},
            std::move(parents)};
  }
  Trace* trace = CurrentTrace(*this);
  DrawnNumbers& all = trace ? trace->drawn : drawn_;
  auto drawn = std::find_if(all.begin(), all.end(),
                            [&](const auto& entry) { return entry.first == generator; });
  if (drawn == all.end()) drawn = all.insert(all.end(), {generator, 0});
  const uint64_t before = std::exchange(drawn->second, drawn->second + count);
  return {{.key = key, .counter = Advance(counter, before)}, std::move(parents)};
}

StateRef Session::Random(uint64_t count, const Draw& draw) {
  if (absl::Status here = Connection::CheckFork(); !here.ok()) return Failed(std::move(here));
  const GeneratorRef& generator = current_generator ? current_generator : generator_;
  if (generator->session.lock().get() != this) {
    return Failed(InvalidArgument(
        "a generator of one session for tensors of another: make one after connecting"));
  }
  absl::MutexLock lock(&mu_);
  if (graph_.size() > compact_at_) CompactGraph();
  if (absl::Status status = CheckRandom(); !status.ok()) return Failed(std::move(status));
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

// The numbers that a program drew which failed count as drawn, whether or not it came to that.
void Session::RestoreRandom(RandomGenerator& generator) {
  const auto is_lost = [this](const Value& value) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    for (const Value* at = &value; at != nullptr; at = at->dest.get()) {
      if (at->buffer && IsDoubtful(*at->buffer)) return true;
    }
    return false;
  };
  if (!is_lost(*generator.key->value) && !is_lost(*generator.counter->value)) return;
  const auto restore = [this](const StateRef& state,
                              uint64_t number) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const auto word = [this, number](int shift) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return Constant(graph_, static_cast<uint32_t>(number >> shift), DType::kUint32);
    };
    const Expr words = Stack({word(0), word(32)}, 0);
    TD_CHECK(words.ok(), "two words can always be stacked");
    ValueRef value = NewLeaf(DType::kUint32, {2});
    value->init = words.node();
    value->owner = state;
    SetValue(*state, std::move(value));
  };
  restore(generator.key, generator.seed);
  restore(generator.counter, generator.drawn);
}

void Session::AdvanceRandom() {
  Trace* trace = CurrentTrace(*this);
  for (auto& [generator, drawn] : trace ? trace->drawn : drawn_) {
    const uint64_t count = std::exchange(drawn, 0);
    if (count == 0) continue;
    if (!trace) {
      RestoreRandom(*generator);
      generator->drawn += count;
    }
    const ValueRef counter = generator->counter->value;
    const Expr advanced = Advance(Expr(&graph_, NodeOf(*counter)), count);
    TD_CHECK(advanced.ok(), "the counter can always be moved on");
    Replace(generator->counter, NewExpression(advanced, {&counter, 1}));
  }
  if (!trace) drawn_.clear();
}

}  // namespace tensord::client
