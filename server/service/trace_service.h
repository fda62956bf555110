// What is asked of traces: by a client of its own session, by tensorctl of all.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/synchronization/mutex.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

#include "proto/tensord/v1/trace.grpc.pb.h"
#include "server/auth/authenticator.h"
#include "server/service/call.h"
#include "server/session/registry.h"

namespace tensord {

class TraceServiceImpl final : public v1::TraceService::CallbackService {
 public:
  TraceServiceImpl(SessionRegistry& registry, CallCount& calls, const Authenticator& authenticator)
      : registry_(registry), calls_(calls), authenticator_(authenticator) {}

  grpc::ServerUnaryReactor* GetTrace(grpc::CallbackServerContext* context,
                                     const v1::GetTraceRequest* request,
                                     v1::GetTraceReply* reply) override;

 private:
  // Of the session that the token names.
  absl::Status OfOwnSession(const Caller& caller, const v1::GetTraceRequest& request,
                            v1::GetTraceReply& reply);
  // ResourceExhausted if too many are.
  absl::Status StartTrace(Session& session);
  // Of what all sessions note together.
  absl::Status OfAll(const Caller& caller, const v1::GetTraceRequest& request,
                     v1::GetTraceReply& reply);
  // Sessions that are open, of that name if it isn't empty, and may be known to the caller.
  absl::StatusOr<std::vector<std::shared_ptr<Session>>> SessionsOf(const Caller& caller,
                                                                   const std::string& id);

  SessionRegistry& registry_;
  CallCount& calls_;
  const Authenticator& authenticator_;
  absl::Mutex starting_;  // one at a time, so that they count
};

}  // namespace tensord
