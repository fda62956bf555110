// How a client proves who it is to a daemon on another machine, and that the daemon is the right
// one. On unix sockets the kernel does both, and nothing of this is used.
//
//   TD_ASSIGN_OR_RETURN(auto channel, Dial("gpu1:7070", Security::FromEnvironment(), {}));
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tensord {

struct Security {
  // TCP is encrypted, and the daemon's certificate checked. Any of the fields below asks for that.
  bool tls = false;
  std::string ca_file;    // PEM of who signs the daemon's certificate; empty: the system's
  std::string cert_file;  // PEM of the client's own certificate, with key_file
  std::string key_file;
  std::string server_name;  // in the daemon's certificate, if it isn't the address's host
  std::string token;        // one of --auth-tokens
  absl::Status status;      // what is wrong with it, if it comes from the environment

  // TENSORD_TLS (true or false), TENSORD_TLS_CA, TENSORD_TLS_CERT, TENSORD_TLS_KEY,
  // TENSORD_TLS_SERVER_NAME, TENSORD_TOKEN.
  static Security FromEnvironment();
};

// What hears each call of a channel.
using Interceptors =
    std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>>;

// A channel to the daemon; it connects when it is used. InvalidArgument names the file or the
// option that is no good, never the token.
absl::StatusOr<std::shared_ptr<grpc::Channel>> Dial(const std::string& address,
                                                    const Security& security,
                                                    const grpc::ChannelArguments& arguments,
                                                    Interceptors interceptors = {});

// What to say of a daemon whose channel doesn't connect for this reason of gRPC's, if that is that
// the two don't agree on TLS; else OK.
absl::Status TlsDisagreement(const std::string& address, std::string_view why);

}  // namespace tensord
