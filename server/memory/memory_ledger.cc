#include "server/memory/memory_ledger.h"

#include <algorithm>
#include <limits>

#include "core/base/check.h"
#include "core/base/status.h"
#include "core/wire/refusal.h"

namespace tensord {
namespace {

// When to come again if others hold what is asked for, and nobody knows for how long.
constexpr absl::Duration kRetryAfter = absl::Seconds(1);

// Saturates: a sum that no machine has is over any limit.
uint64_t Sum(absl::Span<const MemoryLedger::Need> needs) {
  uint64_t sum = 0;
  for (const auto& [device, bytes] : needs) {
    sum = bytes > std::numeric_limits<uint64_t>::max() - sum ? std::numeric_limits<uint64_t>::max()
                                                             : sum + bytes;
  }
  return sum;
}

bool Fits(uint64_t more, uint64_t used, uint64_t limit) {
  return more <= limit && used <= limit - more;
}

}  // namespace

MemoryLedger::Account::Account(MemoryLedger& ledger, std::string session, std::string user,
                               uint64_t quota)
    : ledger_(ledger), session_(std::move(session)), user_(std::move(user)), quota_(quota) {
  absl::MutexLock lock(&ledger_.mu_);
  usage_.since = ledger_.clock_();
  ledger_.accounts_.insert(this);
}

MemoryLedger::Account::~Account() {
  Close();
  absl::MutexLock lock(&ledger_.mu_);
  ledger_.accounts_.erase(this);
}

absl::Status MemoryLedger::Account::Charge(absl::Span<const Need> needs, std::string_view what) {
  const uint64_t bytes = Sum(needs);
  absl::MutexLock lock(&ledger_.mu_);
  if (closed_) return Cancelled("the session has ended");
  if (!Fits(bytes, usage_.bytes, quota_)) {
    return Refuse({.reason = "MEMORY_OF_SESSION",
                   .subject = "session:" + session_,
                   .limit = quota_,
                   .used = usage_.bytes,
                   .needed = bytes},
                  fmt::format("{} need {} bytes: the session holds {} of its limit of {}; release "
                              "tensors, or start the daemon with a larger --max-session-bytes",
                              what, bytes, usage_.bytes, quota_));
  }
  uint64_t& used = ledger_.users_[user_];
  if (!Fits(bytes, used, ledger_.user_quota_)) {
    Refusal refusal{.reason = "MEMORY_OF_USER",
                    .subject = "user:" + user_,
                    .limit = ledger_.user_quota_,
                    .used = used,
                    .needed = bytes};
    const std::vector<const Account*> holders = ledger_.Largest([this](const Account& account) {
      return account.user_ == user_ ? account.usage_.bytes : 0;
    });
    for (const Account* each : holders) {
      refusal.holders.push_back({.session = each->session_, .bytes = each->usage_.bytes});
    }
    refusal.retry_after = ledger_.RetryAfter(holders, this);
    return Refuse(
        refusal,
        fmt::format("{} need {} bytes: the sessions of {} hold {} of the limit of {}, this one {} "
                    "of them; release tensors in any of them, or start the daemon with a larger "
                    "--max-user-bytes",
                    what, bytes, user_.empty() ? "all callers without a name" : "'" + user_ + "'",
                    used, ledger_.user_quota_, usage_.bytes));
  }
  Add(needs);
  return absl::OkStatus();
}

void MemoryLedger::Account::Take(Device* device, uint64_t bytes) {
  absl::MutexLock lock(&ledger_.mu_);
  if (!closed_) Add({{device, bytes}});
}

void MemoryLedger::Account::Add(absl::Span<const Need> needs) {
  const int64_t now = ledger_.clock_();
  for (const auto& [device, part] : needs) {
    ledger_.Change(usage_, now, part, 0);
    ledger_.users_[user_] += part;
    by_device_[device] += part;
    ledger_.Change(ledger_.devices_.try_emplace(device, Usage{.since = now}).first->second, now,
                   part, 0);
  }
}

void MemoryLedger::Account::Release(absl::Span<const Need> needs) {
  absl::MutexLock lock(&ledger_.mu_);
  if (closed_) return;
  const int64_t now = ledger_.clock_();
  for (const auto& [device, part] : needs) {
    if (part == 0) continue;
    uint64_t& held = by_device_[device];
    TD_CHECK(part <= held, "what is released was charged");
    held -= part;
    ledger_.Change(usage_, now, 0, part);
    ledger_.Change(ledger_.devices_[device], now, 0, part);
    ledger_.users_[user_] -= part;
  }
}

void MemoryLedger::Account::Move(Device* from, Device* to, uint64_t bytes) {
  absl::MutexLock lock(&ledger_.mu_);
  if (closed_ || bytes == 0) return;
  const int64_t now = ledger_.clock_();
  uint64_t& held = by_device_[from];
  TD_CHECK(bytes <= held, "what is moved was charged");
  held -= bytes;
  by_device_[to] += bytes;
  ledger_.Change(ledger_.devices_[from], now, 0, bytes);
  ledger_.Change(ledger_.devices_.try_emplace(to, Usage{.since = now}).first->second, now, bytes,
                 0);
}

void MemoryLedger::Account::Close() {
  absl::MutexLock lock(&ledger_.mu_);
  if (closed_) return;
  const int64_t now = ledger_.clock_();
  for (auto& [device, held] : by_device_) {
    ledger_.Change(ledger_.devices_[device], now, 0, held);
    held = 0;
  }
  const auto user = ledger_.users_.find(user_);
  if (user != ledger_.users_.end() && (user->second -= usage_.bytes) == 0) {
    ledger_.users_.erase(user);
  }
  ledger_.Change(usage_, now, 0, usage_.bytes);
  closed_ = true;
}

void MemoryLedger::Account::SetParkedUntil(std::optional<absl::Time> until) {
  absl::MutexLock lock(&ledger_.mu_);
  parked_until_ = until;
}

uint64_t MemoryLedger::Account::bytes() const {
  absl::MutexLock lock(&ledger_.mu_);
  return usage_.bytes;
}

absl::uint128 MemoryLedger::Account::byte_ns() {
  absl::MutexLock lock(&ledger_.mu_);
  ledger_.Change(usage_, ledger_.clock_(), 0, 0);
  return usage_.byte_ns;
}

void MemoryLedger::SetUserQuota(uint64_t bytes) {
  absl::MutexLock lock(&mu_);
  user_quota_ = bytes;
}

uint64_t MemoryLedger::user_quota() const {
  absl::MutexLock lock(&mu_);
  return user_quota_;
}

absl::Status MemoryLedger::Explain(const absl::Status& status, absl::Span<const Need> needs) const {
  if (!absl::IsResourceExhausted(status) || RefusalOf(status)) return status;
  for (const auto& [device, bytes] : needs) {
    const MemoryStats stats = device->allocator().stats();
    if (Fits(bytes, stats.in_use_bytes, stats.capacity_bytes)) continue;
    Refusal refusal{.reason = "MEMORY_OF_DEVICE",
                    .subject = "device:" + device->name(),
                    .limit = stats.capacity_bytes,
                    .used = stats.in_use_bytes,
                    .needed = bytes};
    for (const Holder& holder : Holders(device)) {
      refusal.holders.push_back({.session = holder.session, .bytes = holder.bytes});
    }
    if (bytes <= stats.capacity_bytes) {
      absl::MutexLock lock(&mu_);
      refusal.retry_after = RetryAfter(Largest([device = device](const Account& account) {
                                         const auto held = account.by_device_.find(device);
                                         return held == account.by_device_.end() ? 0 : held->second;
                                       }),
                                       nullptr);
    }
    return WithRefusal(status, refusal);
  }
  return status;
}

MemoryLedger::Usage MemoryLedger::OfDevice(Device* device) {
  absl::MutexLock lock(&mu_);
  const auto found = devices_.find(device);
  if (found == devices_.end()) return {};
  Change(found->second, clock_(), 0, 0);
  return found->second;
}

std::vector<MemoryLedger::Holder> MemoryLedger::Holders(Device* device) const {
  std::vector<Holder> holders;
  absl::MutexLock lock(&mu_);
  const auto held = [device](const Account& account) {
    const auto found = account.by_device_.find(device);
    return found == account.by_device_.end() ? 0 : found->second;
  };
  for (const Account* account : Largest(held)) {
    holders.push_back(
        {.session = account->session_, .user = account->user_, .bytes = held(*account)});
  }
  return holders;
}

void MemoryLedger::Change(Usage& usage, int64_t now, uint64_t more, uint64_t less) const {
  TD_CHECK(less <= usage.bytes && more <= std::numeric_limits<uint64_t>::max() - usage.bytes,
           "what is given back was charged");
  // A clock that was set back stands still.
  if (now > usage.since) {
    usage.byte_ns += absl::uint128(usage.bytes) * static_cast<uint64_t>(now - usage.since);
    usage.since = now;
  }
  usage.bytes += more;
  usage.bytes -= less;
}

template <typename BytesOf>
std::vector<const MemoryLedger::Account*> MemoryLedger::Largest(const BytesOf& bytes_of) const {
  std::vector<std::pair<uint64_t, const Account*>> held;
  for (const Account* account : accounts_) {
    if (const uint64_t bytes = bytes_of(*account); bytes > 0) held.emplace_back(bytes, account);
  }
  std::sort(held.begin(), held.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second->session_ < b.second->session_;
  });
  std::vector<const Account*> accounts;
  for (const auto& [bytes, account] : held) accounts.push_back(account);
  return accounts;
}

std::optional<absl::Duration> MemoryLedger::RetryAfter(absl::Span<const Account* const> holders,
                                                       const Account* self) const {
  std::optional<absl::Duration> after;
  const absl::Time now = absl::FromUnixNanos(clock_());
  for (const Account* each : holders) {
    if (each == self) continue;
    const absl::Duration left = each->parked_until_
                                    ? std::max(*each->parked_until_ - now, absl::ZeroDuration())
                                    : kRetryAfter;
    after = after ? std::min(*after, left) : left;
  }
  return after;
}

}  // namespace tensord
