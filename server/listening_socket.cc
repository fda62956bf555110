#include "server/listening_socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <grpcpp/server_posix.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <optional>

#include "core/base/log.h"
#include "core/base/status.h"
#include "server/listen.h"

namespace tensord {
namespace {

struct Name {
  std::string address;
  bool local = true;
  bool tcp = true;
};

absl::StatusOr<Name> NameOf(int fd) {
  union {
    sockaddr any;
    sockaddr_un unix_path;
    sockaddr_in ip4;
    sockaddr_in6 ip6;
  } name = {};
  socklen_t size = sizeof(name);
  if (getsockname(fd, &name.any, &size) != 0) {
    return InvalidArgument("descriptor {} was inherited for listening and is no socket: {}", fd,
                           std::strerror(errno));
  }
  char host[INET6_ADDRSTRLEN];
  switch (name.any.sa_family) {
    case AF_UNIX: {
      const size_t length = size - offsetof(sockaddr_un, sun_path);
      const char* path = name.unix_path.sun_path;
      if (length > 1 && path[0] == '\0') {
        return Name{.address = "unix-abstract:" + std::string(path + 1, length - 1), .tcp = false};
      }
      return Name{.address = "unix:" + std::string(path, strnlen(path, length)), .tcp = false};
    }
    case AF_INET:
      inet_ntop(AF_INET, &name.ip4.sin_addr, host, sizeof(host));
      return Name{HostAndPort(host, ntohs(name.ip4.sin_port)), IsLoopback(host)};
    case AF_INET6:
      inet_ntop(AF_INET6, &name.ip6.sin6_addr, host, sizeof(host));
      return Name{HostAndPort(host, ntohs(name.ip6.sin6_port)), IsLoopback(host)};
    default:
      return InvalidArgument("descriptor {} was inherited for listening and is of family {}", fd,
                             name.any.sa_family);
  }
}

bool Listens(int fd) {
  int listens = 0, type = 0;
  socklen_t size = sizeof(int);
  return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0 &&
         getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ListeningSocket>> ListeningSocket::Take(int fd, bool allow_remote) {
  std::unique_ptr<ListeningSocket> socket(new ListeningSocket(fd));
  TD_ASSIGN_OR_RETURN(Name name, NameOf(fd));
  if (!Listens(fd)) {
    return InvalidArgument(
        "descriptor {} ({}) was inherited for listening and does not listen for streams: a socket "
        "unit needs ListenStream= and Accept=no",
        fd, name.address);
  }
  if (!name.local && !allow_remote) {
    return FailedPrecondition(
        "descriptor {} listens on {}: other machines could connect, and nothing would be "
        "encrypted, or anybody let in; give it a loopback address, or give --tls-cert and "
        "--auth-tokens or --tls-client-ca, or add --insecure if the network is trusted",
        fd, name.address);
  }
  socket->address_ = std::move(name.address);
  socket->tcp_ = name.tcp;
  return socket;
}

ListeningSocket::~ListeningSocket() {
  Stop();
  close(fd_);
}

void ListeningSocket::Prepare(grpc::ServerBuilder& builder,
                              std::shared_ptr<grpc::ServerCredentials> credentials) {
  if (!tcp_) return;
  acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      std::move(credentials));
}

void ListeningSocket::Accept(grpc::Server& server) {
  // Another process may take the connection between poll and accept.
  fcntl(fd_, F_SETFL, fcntl(fd_, F_GETFL) | O_NONBLOCK);
  stop_ = eventfd(0, EFD_CLOEXEC);
  thread_ = std::jthread([this, &server] { Run(server); });
}

void ListeningSocket::Stop() {
  if (stop_ < 0) return;
  const uint64_t one = 1;
  // An eventfd takes eight bytes at any time.
  [[maybe_unused]] const ssize_t written = write(stop_, &one, sizeof(one));
  thread_.join();
  close(stop_);
  stop_ = -1;
}

void ListeningSocket::Run(grpc::Server& server) {
  pthread_setname_np(pthread_self(), "td-accept");
  pollfd events[] = {{.fd = stop_, .events = POLLIN, .revents = 0},
                     {.fd = fd_, .events = POLLIN, .revents = 0}};
  for (;;) {
    if (poll(events, std::size(events), -1) <= 0) continue;
    if (events[0].revents != 0) return;
    const int connection = accept4(fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (connection >= 0) {
      Hand(connection, server);
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      // The connection stays in the queue, so poll would say it again at once.
      const std::string error = std::strerror(errno);
      if (const std::optional<uint64_t> left_out = refusals_.Take()) {
        Log("server").error("cannot accept address={} error='{}' left_out={}", address_, error,
                            *left_out);
      }
      poll(events, 1, 100);
    }
  }
}

void ListeningSocket::Hand(int connection, grpc::Server& server) {
  if (!tcp_) return grpc::AddInsecureChannelFromFd(&server, connection);
  // gRPC asks for this on its own listeners.
  const int on = 1;
  setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
  parameters.listener_fd = fd_;
  parameters.fd = connection;
  acceptor_->HandleNewConnection(&parameters);
}

}  // namespace tensord
