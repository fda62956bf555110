#include "server/service/session_service.h"

#include <memory>
#include <utility>

#include "core/base/status.h"
#include "core/wire/status.h"
#include "server/service/describe.h"
#include "server/service/download.h"
#include "server/service/publish.h"
#include "server/service/session_stream.h"
#include "server/service/upload.h"
#include "server/service/wait.h"

namespace tensord {
namespace {

// Owns itself until gRPC is done with it.
class WaitCall final : public grpc::ServerUnaryReactor,
                       public std::enable_shared_from_this<WaitCall> {
 public:
  static WaitCall* Start(const FindSession& find, CallCount& calls, const v1::WaitRequest& request,
                         v1::WaitReply* reply) {
    auto* call = new WaitCall(calls, request.handle(), reply);
    call->self_.reset(call);
    absl::StatusOr<std::shared_ptr<Session>> session = find(request.session_token());
    if (!session.ok()) {
      call->End(session.status());
      return call;
    }
    call->wait_ = std::make_shared<CommandWait>(*std::move(session));
    call->wait_->Start({.sequence = request.sequence(), .handle = request.handle()},
                       [self = call->self_](absl::StatusOr<Awaited> awaited) {
                         self->Answer(std::move(awaited));
                       });
    return call;
  }

 private:
  WaitCall(CallCount& calls, uint64_t handle, v1::WaitReply* reply)
      : guard_(calls), handle_(handle), reply_(reply) {}

  void Answer(const absl::StatusOr<Awaited>& awaited) {
    absl::Status status = awaited.status();
    // The call itself fails only if it was cancelled: the handle's error is what was asked for.
    if (absl::IsCancelled(status)) return End(status);
    if (status.ok() && handle_ != 0) status = wait_->session().HandleStatus(handle_);
    Encode(status, reply_->mutable_status());
    for (std::string& name : wait_->session().KernelNames(handle_)) {
      reply_->add_kernels(std::move(name));
    }
    End(absl::OkStatus());
  }

  void End(const absl::Status& status) {
    guard_.Ended("Wait", begin_, status);
    Finish(ToGrpc(status));
  }

  void OnCancel() override {
    if (wait_) wait_->Cancel();
  }
  void OnDone() override { const std::shared_ptr<WaitCall> last = std::move(self_); }

  const CallCount::Guard guard_;
  const uint64_t handle_;
  v1::WaitReply* const reply_;
  const absl::Time begin_ = absl::Now();
  std::shared_ptr<WaitCall> self_;
  std::shared_ptr<CommandWait> wait_;
};

}  // namespace

FindSession SessionServiceImpl::FinderOf(const grpc::CallbackServerContext& context) const {
  return [&registry = registry_, caller = authenticator_.Identify(context)](
             const std::string& token) -> absl::StatusOr<std::shared_ptr<tensord::Session>> {
    TD_RETURN_IF_ERROR(caller.status());
    return registry.Find(token, caller->user);
  };
}

grpc::ServerBidiReactor<v1::ClientFrame, v1::ServerFrame>* SessionServiceImpl::Session(
    grpc::CallbackServerContext* context) {
  return SessionStream::Start(registry_, calls_, context->peer(),
                              authenticator_.Identify(*context));
}

grpc::ServerReadReactor<v1::UploadChunk>* SessionServiceImpl::Upload(
    grpc::CallbackServerContext* context, v1::UploadReply* reply) {
  return UploadCall::Start(FinderOf(*context), calls_, reply);
}

grpc::ServerWriteReactor<v1::DownloadChunk>* SessionServiceImpl::Download(
    grpc::CallbackServerContext* context, const v1::DownloadRequest* request) {
  return DownloadCall::Start(FinderOf(*context), calls_, *request);
}

grpc::ServerUnaryReactor* SessionServiceImpl::EndSession(grpc::CallbackServerContext* context,
                                                         const v1::EndSessionRequest* request,
                                                         v1::EndSessionReply* reply) {
  return AnswerNow(calls_, context, "EndSession", [&]() -> absl::Status {
    TD_ASSIGN_OR_RETURN(const auto session, FinderOf (*context)(request->session_token()));
    session->Close(absl::OkStatus());  // its stream, if it has one
    registry_.Close(*session);
    *reply->mutable_counters() = session->Counters();
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* SessionServiceImpl::Wait(grpc::CallbackServerContext* context,
                                                   const v1::WaitRequest* request,
                                                   v1::WaitReply* reply) {
  return WaitCall::Start(FinderOf(*context), calls_, *request, reply);
}

grpc::ServerUnaryReactor* SessionServiceImpl::Counters(grpc::CallbackServerContext* context,
                                                       const v1::CountersRequest* request,
                                                       v1::CountersReply* reply) {
  return AnswerNow(calls_, context, "Counters", [&]() -> absl::Status {
    TD_ASSIGN_OR_RETURN(const auto session, FinderOf (*context)(request->session_token()));
    *reply = session->Counters();
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* SessionServiceImpl::Publish(grpc::CallbackServerContext* context,
                                                      const v1::PublishRequest* request,
                                                      v1::PublishReply* reply) {
  return StartPublish(FinderOf(*context), registry_.engine().publications, calls_, files_, *request,
                      reply);
}

grpc::ServerUnaryReactor* SessionServiceImpl::FindPublished(grpc::CallbackServerContext* context,
                                                            const v1::FindPublishedRequest* request,
                                                            v1::Publication* reply) {
  return AnswerNow(calls_, context, "FindPublished", [&]() -> absl::Status {
    TD_ASSIGN_OR_RETURN(const auto session, FinderOf (*context)(request->session_token()));
    const std::string& user = session->identity().user;
    TD_ASSIGN_OR_RETURN(const PublicationRef found, registry_.engine().publications.Find(
                                                        user, request->owner(), request->name()));
    *reply = Describe(*found, user);
    for (const Publication::Tensor& tensor : found->tensors) {
      const Buffer& buffer = *tensor.buffer->buffer();
      v1::Publication::Tensor& out = *reply->add_tensors();
      out.set_key(tensor.key);
      out.set_dtype(static_cast<uint32_t>(buffer.dtype));
      out.mutable_shape()->Add(buffer.shape.begin(), buffer.shape.end());
      out.set_device(buffer.memory->device().name());
    }
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* SessionServiceImpl::ListPublished(grpc::CallbackServerContext* context,
                                                            const v1::ListPublishedRequest* request,
                                                            v1::ListPublishedReply* reply) {
  return AnswerNow(calls_, context, "ListPublished", [&]() -> absl::Status {
    TD_ASSIGN_OR_RETURN(const auto session, FinderOf (*context)(request->session_token()));
    const std::string& user = session->identity().user;
    for (const PublicationRef& each : registry_.engine().publications.List(user)) {
      *reply->add_publications() = Describe(*each, user);
    }
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* SessionServiceImpl::Unpublish(grpc::CallbackServerContext* context,
                                                        const v1::UnpublishRequest* request,
                                                        v1::UnpublishReply* /*reply*/) {
  return AnswerLater(calls_, context, files_, "Unpublish",
                     [this, find = FinderOf(*context), request]() -> absl::Status {
                       TD_ASSIGN_OR_RETURN(const auto session, find(request->session_token()));
                       return registry_.engine().publications.Unpublish(session->identity().user,
                                                                        request->name());
                     });
}

grpc::ServerUnaryReactor* SessionServiceImpl::Explain(grpc::CallbackServerContext* context,
                                                      const v1::ExplainRequest* request,
                                                      v1::ExplainReply* reply) {
  return AnswerNow(calls_, context, "Explain", [&]() -> absl::Status {
    TD_ASSIGN_OR_RETURN(const auto session, FinderOf (*context)(request->session_token()));
    const std::string& user = session->identity().user;
    *reply = session->Explain();
    DescribeMemory(
        registry_.engine(), [&user](const std::string& other) { return other == user; },
        reply->mutable_memory());
    return absl::OkStatus();
  });
}

}  // namespace tensord
