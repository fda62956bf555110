#include "server/service/publish.h"

#include <utility>
#include <vector>

#include "core/base/status.h"
#include "server/service/wait.h"
#include "server/sharing/publications.h"

namespace tensord {
namespace {

// Owns itself until gRPC is done with it.
class PublishCall final : public grpc::ServerUnaryReactor {
 public:
  static PublishCall* Start(const FindSession& find, Publications& publications, CallCount& calls,
                            WorkerPool& files, const v1::PublishRequest& request,
                            v1::PublishReply* reply) {
    auto* call = new PublishCall(publications, calls, files, request, reply);
    call->self_.reset(call);
    const std::shared_ptr<PublishCall> alive = call->self_;
    absl::StatusOr<std::shared_ptr<Session>> session = find(request.session_token());
    if (!session.ok()) {
      call->End(session.status());
    } else {
      call->session_ = *std::move(session);
      AwaitNext(alive);
    }
    return call;
  }

 private:
  PublishCall(Publications& publications, CallCount& calls, WorkerPool& files,
              const v1::PublishRequest& request, v1::PublishReply* reply)
      : guard_(calls),
        publications_(publications),
        files_(files),
        request_(request),
        reply_(reply) {}

  // One tensor after the other. What is there already is gone through without recursion.
  static void AwaitNext(const std::shared_ptr<PublishCall>& self) {
    {
      absl::MutexLock lock(&self->mu_);
      self->waiting_ = true;
      if (self->looping_) return;
      self->looping_ = true;
    }
    for (;;) {
      std::shared_ptr<CommandWait> wait;
      {
        absl::MutexLock lock(&self->mu_);
        if (!self->waiting_) {
          self->looping_ = false;
          return;
        }
        self->waiting_ = false;
        if (!self->cancelled_ &&
            self->found_.size() < static_cast<size_t>(self->request_.tensors_size())) {
          wait = self->wait_ = std::make_shared<CommandWait>(self->session_);
        }
      }
      if (wait == nullptr) return self->files_.Schedule([self] { self->Publish(); });
      const auto next = static_cast<int>(self->found_.size());
      wait->Start({.sequence = self->request_.after_sequence(),
                   .handle = self->request_.tensors(next).handle(),
                   .pin = true},
                  [self, next](absl::StatusOr<Awaited> awaited) {
                    if (!awaited.ok()) {
                      self->failed_ = Annotate(awaited.status(), "tensor '{}'",
                                               self->request_.tensors(next).key());
                      return self->files_.Schedule([self] { self->Publish(); });
                    }
                    self->found_.push_back(*std::move(awaited));
                    AwaitNext(self);
                  });
    }
  }

  void Publish() {
    absl::Status status = failed_;
    if (status.ok() && found_.size() < static_cast<size_t>(request_.tensors_size())) {
      status = Cancelled("the call was cancelled");
    }
    if (status.ok()) status = PublishFound();
    found_.clear();  // runs that would overwrite them may go on, and are refused
    End(status);
  }

  absl::Status PublishFound() {
    Publications::Draft draft{.owner = session_->identity().user,
                              .name = request_.name(),
                              .readers = {request_.readers().begin(), request_.readers().end()},
                              .tensors = {}};
    for (size_t i = 0; i < found_.size(); ++i) {
      if (found_[i].buffer == nullptr) {
        return InvalidArgument("tensor '{}' is a program",
                               request_.tensors(static_cast<int>(i)).key());
      }
      draft.tensors.push_back({.key = request_.tensors(static_cast<int>(i)).key(),
                               .buffer = found_[i].buffer,
                               .published = found_[i].published});
    }
    TD_ASSIGN_OR_RETURN(const PublicationRef publication, publications_.Publish(std::move(draft)));
    for (size_t i = 0; i < found_.size(); ++i) {
      session_->SetPublished(request_.tensors(static_cast<int>(i)).handle(),
                             *publication->tensors[i].buffer);
    }
    reply_->set_version(publication->version);
    reply_->set_saved(publication->saved);
    return absl::OkStatus();
  }

  void End(const absl::Status& status) {
    guard_.Ended("Publish", begin_, status);
    Finish(ToGrpc(status));
  }

  void OnCancel() override {
    std::shared_ptr<CommandWait> wait;
    {
      absl::MutexLock lock(&mu_);
      cancelled_ = true;
      wait = wait_;
    }
    if (wait) wait->Cancel();
  }
  void OnDone() override { const std::shared_ptr<PublishCall> last = std::move(self_); }

  const CallCount::Guard guard_;
  Publications& publications_;
  WorkerPool& files_;
  const v1::PublishRequest& request_;  // gRPC keeps it until the call is done
  v1::PublishReply* const reply_;
  const absl::Time begin_ = absl::Now();
  std::shared_ptr<PublishCall> self_;
  std::shared_ptr<Session> session_;
  // Of whoever takes the next step; there is one at a time.
  std::vector<Awaited> found_;
  absl::Status failed_;

  absl::Mutex mu_;
  std::shared_ptr<CommandWait> wait_ ABSL_GUARDED_BY(mu_);
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;
  bool waiting_ ABSL_GUARDED_BY(mu_) = false;  // the next tensor may be waited for
  bool looping_ ABSL_GUARDED_BY(mu_) = false;  // and a thread does so
};

}  // namespace

grpc::ServerUnaryReactor* StartPublish(const FindSession& find, Publications& publications,
                                       CallCount& calls, WorkerPool& files,
                                       const v1::PublishRequest& request, v1::PublishReply* reply) {
  return PublishCall::Start(find, publications, calls, files, request, reply);
}

}  // namespace tensord
