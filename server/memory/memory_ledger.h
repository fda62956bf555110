// MemoryLedger: the one place that counts who holds how much memory: by session, by user, by
// device, now and over time. A charge that would go over a quota is refused as a whole, and says
// who holds the rest.
//
//   MemoryLedger::Account account(ledger, "session-3", "alice", session_quota);
//   TD_RETURN_IF_ERROR(account.Charge({{device, bytes}}, "float32[1000]"));
//   account.Release(device, bytes);
//
// Callers without a name count as one user, because nobody can tell them apart.
//
// Thread-safe; takes no other lock while it has its own.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>
#include <absl/numeric/int128.h>
#include <absl/status/status.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/clock.h>
#include <absl/time/time.h>
#include <absl/types/span.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/device/device.h"

namespace tensord {

class MemoryLedger {
 public:
  using Need = std::pair<Device*, uint64_t>;  // bytes

  // An amount, and its integral over time.
  struct Usage {
    uint64_t bytes = 0;
    absl::uint128 byte_ns = 0;  // until `since`
    int64_t since = 0;          // ns
  };

  // What one session holds, or (without a session's name) what a user has published. Gives all back
  // when it dies.
  class Account {
   public:
    Account(MemoryLedger& ledger, std::string session, std::string user, uint64_t quota);
    ~Account();
    Account(const Account&) = delete;
    Account& operator=(const Account&) = delete;

    // All of it, or ResourceExhausted with a Refusal; `what` is to be charged.
    absl::Status Charge(absl::Span<const Need> needs, std::string_view what);
    // The same without quotas, for what was admitted elsewhere.
    void Take(Device* device, uint64_t bytes);
    void Release(absl::Span<const Need> needs);
    void Release(Device* device, uint64_t bytes) { Release({{device, bytes}}); }
    // To another device, or from and to none: what is spilled. The sum stays.
    void Move(Device* from, Device* to, uint64_t bytes);
    // Gives all back; what is released later was given back already.
    void Close();
    // Without a stream until then, unless it comes back: when others may get what it holds.
    void SetParkedUntil(std::optional<absl::Time> until);

    uint64_t bytes() const;
    absl::uint128 byte_ns();

   private:
    friend class MemoryLedger;

    void Add(absl::Span<const Need> needs) ABSL_EXCLUSIVE_LOCKS_REQUIRED(ledger_.mu_);

    MemoryLedger& ledger_;
    const std::string session_;
    const std::string user_;
    const uint64_t quota_;
    // Guarded by the ledger's lock.
    Usage usage_;
    absl::flat_hash_map<Device*, uint64_t> by_device_;
    std::optional<absl::Time> parked_until_;
    bool closed_ = false;
  };

  struct Holder {
    std::string session;  // empty: what the user has published
    std::string user;
    uint64_t bytes = 0;
  };

  // `clock` is in ns, and never goes back.
  explicit MemoryLedger(uint64_t user_quota,
                        std::function<int64_t()> clock = absl::GetCurrentTimeNanos)
      : user_quota_(user_quota), clock_(std::move(clock)) {}

  // For charges from now on.
  void SetUserQuota(uint64_t bytes);
  uint64_t user_quota() const;

  // The error of a device that has no such memory left, with who holds it; any other is as it was.
  absl::Status Explain(const absl::Status& status, absl::Span<const Need> needs) const;

  // Of all sessions, those that have ended included. Null: what is on no device, but spilled.
  Usage OfDevice(Device* device);
  std::vector<Holder> Holders(Device* device) const;  // the largest first

 private:
  // The usage as of now changes.
  void Change(Usage& usage, int64_t now, uint64_t more, uint64_t less) const;
  template <typename BytesOf>
  std::vector<const Account*> Largest(const BytesOf& bytes_of) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // When what others hold may come back; nothing if nobody else holds anything.
  std::optional<absl::Duration> RetryAfter(absl::Span<const Account* const> holders,
                                           const Account* self) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable absl::Mutex mu_;
  uint64_t user_quota_ ABSL_GUARDED_BY(mu_);
  const std::function<int64_t()> clock_;
  absl::flat_hash_set<Account*> accounts_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<std::string, uint64_t> users_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<Device*, Usage> devices_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tensord
