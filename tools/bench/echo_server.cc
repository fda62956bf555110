// Sends back what it gets: the bare gRPC peer of roundtrip_bench, by the same API as the daemon's.
//
//   echo_server unix:/tmp/echo.sock      // prints the address once it serves; ends with its stdin
#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <cstdio>
#include <memory>
#include <string>

#include "tools/bench/echo.grpc.pb.h"

namespace tensord::bench {
namespace {

class EchoStream final : public grpc::ServerBidiReactor<Echo, Echo> {
 public:
  EchoStream() { StartRead(&message_); }
  void OnReadDone(bool ok) override { ok ? StartWrite(&message_) : Finish(grpc::Status::OK); }
  void OnWriteDone(bool ok) override { ok ? StartRead(&message_) : Finish(grpc::Status::OK); }
  void OnDone() override { delete this; }

 private:
  Echo message_;
};

class EchoServiceImpl final : public EchoService::CallbackService {
 public:
  grpc::ServerUnaryReactor* Unary(grpc::CallbackServerContext* context, const Echo* request,
                                  Echo* reply) override {
    *reply->mutable_data() = request->data();
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
  grpc::ServerBidiReactor<Echo, Echo>* Stream(grpc::CallbackServerContext*) override {
    return new EchoStream;  // deletes itself in OnDone
  }
};

int Main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: echo_server ADDRESS\n");
    return 2;
  }
  EchoServiceImpl service;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(argv[1], grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) {
    fmt::print(stderr, "echo_server: can't listen on {}\n", argv[1]);
    return 1;
  }
  fmt::print("{}\n", argv[1]);
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return 0;
}

}  // namespace
}  // namespace tensord::bench

int main(int argc, char** argv) { return tensord::bench::Main(argc, argv); }
