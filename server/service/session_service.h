// The session protocol's calls: the stream, bulk data, waiting, counters.
#pragma once

#include "proto/tensord/v1/session.grpc.pb.h"
#include "server/auth/authenticator.h"
#include "server/service/call.h"
#include "server/session/registry.h"
#include "server/session/worker_pool.h"

namespace tensord {

class SessionServiceImpl final : public v1::SessionService::CallbackService {
 public:
  SessionServiceImpl(SessionRegistry& registry, CallCount& calls,
                     const Authenticator& authenticator, WorkerPool& files)
      : registry_(registry), calls_(calls), authenticator_(authenticator), files_(files) {}

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
  grpc::ServerUnaryReactor* Publish(grpc::CallbackServerContext* context,
                                    const v1::PublishRequest* request,
                                    v1::PublishReply* reply) override;
  grpc::ServerUnaryReactor* FindPublished(grpc::CallbackServerContext* context,
                                          const v1::FindPublishedRequest* request,
                                          v1::Publication* reply) override;
  grpc::ServerUnaryReactor* ListPublished(grpc::CallbackServerContext* context,
                                          const v1::ListPublishedRequest* request,
                                          v1::ListPublishedReply* reply) override;
  grpc::ServerUnaryReactor* Unpublish(grpc::CallbackServerContext* context,
                                      const v1::UnpublishRequest* request,
                                      v1::UnpublishReply* reply) override;
  grpc::ServerUnaryReactor* Explain(grpc::CallbackServerContext* context,
                                    const v1::ExplainRequest* request,
                                    v1::ExplainReply* reply) override;

 private:
  // Who has a session's token and is another user has nothing.
  FindSession FinderOf(const grpc::CallbackServerContext& context) const;

  SessionRegistry& registry_;
  CallCount& calls_;
  const Authenticator& authenticator_;
  WorkerPool& files_;  // one thread, which alone publishes and takes back
};

}  // namespace tensord
