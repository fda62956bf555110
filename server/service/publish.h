// Publishing: waits until the tensors have their values, then gives them their name. Files are
// written by a thread of their own, one publication after the other.
#pragma once

#include "proto/tensord/v1/session.grpc.pb.h"
#include "server/service/call.h"
#include "server/session/worker_pool.h"
#include "server/sharing/publications.h"

namespace tensord {

grpc::ServerUnaryReactor* StartPublish(const FindSession& find, Publications& publications,
                                       CallCount& calls, WorkerPool& files,
                                       const v1::PublishRequest& request, v1::PublishReply* reply);

}  // namespace tensord
