// The session protocol's calls: the stream, bulk data, waiting, counters.
#pragma once

#include "proto/tensord/v1/session.grpc.pb.h"
#include "server/auth/authenticator.h"
#include "server/service/call.h"
#include "server/session/registry.h"

namespace tensord {

class SessionServiceImpl final : public v1::SessionService::CallbackService {
 public:
  SessionServiceImpl(SessionRegistry& registry, CallCount& calls,
                     const Authenticator& authenticator)
      : registry_(registry), calls_(calls), authenticator_(authenticator) {}

  grpc::ServerBidiReactor<v1::ClientFrame, v1::ServerFrame>* Session(
      grpc::CallbackServerContext* context) override;
  grpc::ServerReadReactor<v1::UploadChunk>* Upload(grpc::CallbackServerContext* context,
                                                   v1::UploadReply* reply) override;
  grpc::ServerWriteReactor<v1::DownloadChunk>* Download(
      grpc::CallbackServerContext* context, const v1::DownloadRequest* request) override;
  grpc::ServerUnaryReactor* EndSession(grpc::CallbackServerContext* context,
                                       const v1::EndSessionRequest* request,
                                       v1::EndSessionReply* reply) override;
  grpc::ServerUnaryReactor* Wait(grpc::CallbackServerContext* context,
                                 const v1::WaitRequest* request, v1::WaitReply* reply) override;
  grpc::ServerUnaryReactor* Counters(grpc::CallbackServerContext* context,
                                     const v1::CountersRequest* request,
                                     v1::CountersReply* reply) override;

 private:
  // Who has a session's token and is another user has nothing.
  FindSession FinderOf(const grpc::CallbackServerContext& context) const;

  SessionRegistry& registry_;
  CallCount& calls_;
  const Authenticator& authenticator_;
};

}  // namespace tensord
