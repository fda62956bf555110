// A daemon in the test's own process: it speaks the session protocol over a unix socket, computes
// by the reference evaluator, checks the rules of the protocol and records what it was sent.
//
//   FakeDaemon daemon;
//   auto client = Client::Connect(daemon.address());
//   ...
//   EXPECT_EQ(daemon.count(v1::Command::kRun), 1);
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/status/status.h>
#include <absl/synchronization/mutex.h>
#include <grpcpp/grpcpp.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/ir/program.h"
#include "proto/tensord/v1/session.grpc.pb.h"

namespace tensord {

class FakeDaemon {
 public:
  struct Options {
    uint32_t max_chunk_bytes = 0;                     // 0: no limit
    grpc::StatusCode refusal = grpc::StatusCode::OK;  // of every session
    uint32_t version = 1;                             // of the protocol
  };
  explicit FakeDaemon(Options options);
  FakeDaemon() : FakeDaemon(Options{}) {}
  ~FakeDaemon();

  const std::string& address() const { return address_; }

  std::vector<v1::Command> commands() const;
  int count(v1::Command::VerbCase verb) const;
  // Bytes of the latest frame that carried commands.
  size_t last_frame_bytes() const;
  // Handles of tensors that nobody has given up.
  size_t live_tensors() const;
  int upload_calls() const;
  // Of the session that was opened last.
  v1::Priority priority() const;
  // What a client did against the rules of the protocol.
  std::vector<std::string> violations() const;

  // The next run fails with this.
  void FailNextRun(absl::Status error);
  // Ends all sessions, as a daemon that dies does.
  void Stop();

 private:
  struct Tensor {
    DType dtype = DType::kVoid;
    std::vector<int64_t> shape;
    std::string data;
    absl::Status error;
  };
  class Service;

  absl::Status Execute(const v1::Command& command) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Run(const v1::RunProgram& run) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Release(uint64_t handle) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Put(uint64_t handle, Tensor tensor, bool overwrites) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Violation(std::string what) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Options options_;
  std::string folder_;
  std::string address_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;

  mutable absl::Mutex mu_;
  std::vector<v1::Command> commands_ ABSL_GUARDED_BY(mu_);
  size_t last_frame_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t executed_ ABSL_GUARDED_BY(mu_) = 0;  // sequence
  std::map<uint64_t, Tensor> tensors_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, Program> programs_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, std::string> transfers_
      ABSL_GUARDED_BY(mu_);                                    // bytes that came on Upload calls
  std::map<uint64_t, uint64_t> awaited_ ABSL_GUARDED_BY(mu_);  // transfer to tensor
  std::map<uint32_t, uint32_t> generations_ ABSL_GUARDED_BY(mu_);  // of slots
  int upload_calls_ ABSL_GUARDED_BY(mu_) = 0;
  v1::Priority priority_ ABSL_GUARDED_BY(mu_) = v1::PRIORITY_UNSPECIFIED;
  absl::Status fail_next_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> violations_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tensord
