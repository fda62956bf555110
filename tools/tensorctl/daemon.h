// One daemon, asked under a deadline.
#pragma once

#include <absl/status/status.h>
#include <absl/time/clock.h>
#include <absl/time/time.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

#include "proto/tensord/v1/admin.grpc.pb.h"
#include "proto/tensord/v1/trace.grpc.pb.h"
#include "tools/tensorctl/show.h"

namespace tensord {

struct ControlOptions {
  std::string address;
  bool json = false;
  int count = 0;  // 0: as many as the command finds right
  absl::Duration interval = absl::Seconds(1);
  absl::Duration timeout = absl::Seconds(5);
  std::string reason;
  double speed = 0;     // of replay; 0: as fast as the daemon answers
  std::string session;  // of trace; empty: all
  double seconds = 0;   // of trace, from now on; 0: what there is
  std::string output;   // file of trace; empty: as other commands
  bool help = false;
  Show show;                       // see tensorctl.h
  std::vector<std::string> words;  // the command, then what it is about
};

class Daemon {
 public:
  // `options` outlives it.
  Daemon(const ControlOptions& options, const std::shared_ptr<grpc::Channel>& channel)
      : options_(options),
        stub_(v1::AdminService::NewStub(channel)),
        traces_(v1::TraceService::NewStub(channel)) {}

  const ControlOptions& options() const { return options_; }

  template <typename Request, typename Reply>
  using Method = grpc::Status (v1::AdminService::Stub::*)(grpc::ClientContext*, const Request&,
                                                          Reply*);

  template <typename Request, typename Reply>
  absl::Status Ask(Method<Request, Reply> method, Reply* reply, const Request& request = {}) const {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + options_.timeout));
    return Explain((stub_.get()->*method)(&context, request, reply));
  }

  absl::Status GetTrace(const v1::GetTraceRequest& request, v1::GetTraceReply& reply) const {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + options_.timeout));
    return Explain(traces_->GetTrace(&context, request, &reply));
  }

 private:
  absl::Status Explain(const grpc::Status& status) const;

  const ControlOptions& options_;
  const std::unique_ptr<v1::AdminService::Stub> stub_;
  const std::unique_ptr<v1::TraceService::Stub> traces_;
};

}  // namespace tensord
