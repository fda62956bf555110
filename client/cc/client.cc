#include "client/cc/client.h"

#include <random>

#include "core/base/status.h"
#include "core/tensor/create.h"
#include "core/tensor/random.h"
#include "core/tensor/size.h"

namespace tensord {
namespace {

uint64_t AnySeed() {
  std::random_device entropy;
  return uint64_t{entropy()} << 32 | entropy();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(const std::string& address,
                                                        const ConnectOptions& options) {
  TD_ASSIGN_OR_RETURN(std::unique_ptr<client::Connection> connection,
                      client::Connection::Open(address, options));
  ConnectOptions chosen = options;
  const auto& devices = connection->welcome().devices();
  if (chosen.device.empty() && !devices.empty()) chosen.device = devices[0].name();
  std::string names;
  bool known = false;
  for (const v1::DeviceInfo& device : devices) {
    names += (names.empty() ? "" : ", ") + device.name();
    known = known || device.name() == chosen.device;
  }
  if (!known) {
    return InvalidArgument("{} has no device '{}'; it has {}", address, chosen.device, names);
  }
  auto client = std::unique_ptr<Client>(
      new Client(std::make_shared<client::Session>(std::move(connection), std::move(chosen))));
  TD_RETURN_IF_ERROR(client->session_->Seed(AnySeed()));
  return client;
}

Tensor Client::FromHost(absl::Span<const char> bytes, DType dtype,
                        absl::Span<const int64_t> shape) const {
  absl::StatusOr<client::StateRef> state = session_->Upload(bytes, dtype, shape);
  return Tensor(state.ok() ? *std::move(state) : session_->Failed(state.status()));
}

Tensor Client::FromFile(std::shared_ptr<const File> file, uint64_t offset, DType dtype,
                        absl::Span<const int64_t> shape) const {
  absl::StatusOr<client::StateRef> state =
      session_->FromFile(std::move(file), offset, dtype, shape);
  return Tensor(state.ok() ? *std::move(state) : session_->Failed(state.status()));
}

Tensor Client::Make(const std::function<Expr(Graph&)>& function) const {
  return Tensor(session_->Apply(
      {}, [&function](Graph& graph, absl::Span<const Expr>) { return function(graph); }));
}

Tensor Client::Full(absl::Span<const int64_t> shape, Number value, DType dtype) const {
  return Make([&](Graph& graph) { return tensord::Full(graph, shape, value, dtype); });
}
Tensor Client::Zeros(absl::Span<const int64_t> shape, DType dtype) const {
  return Full(shape, 0, dtype);
}
Tensor Client::Ones(absl::Span<const int64_t> shape, DType dtype) const {
  return Full(shape, 1, dtype);
}
Tensor Client::Arange(Number start, Number stop, Number step, std::optional<DType> dtype) const {
  return Make([&](Graph& graph) {
    return tensord::Arange(graph, start, stop, step,
                           dtype.value_or(ArangeDType(start, stop, step)));
  });
}
Tensor Client::Linspace(Number start, Number stop, int64_t steps, DType dtype) const {
  return Make([&](Graph& graph) { return tensord::Linspace(graph, start, stop, steps, dtype); });
}
Tensor Client::Eye(int64_t rows, int64_t columns, DType dtype) const {
  return Make([&](Graph& graph) { return tensord::Eye(graph, rows, columns, dtype); });
}

Tensor Client::RandomVaries() const {
  return Tensor(session_->Failed(InvalidArgument(
      "random numbers: sizes must be numbers; draw for the largest size and slice")));
}

Tensor Client::Rand(absl::Span<const int64_t> shape, DType dtype) const {
  if (AnyVaries(shape)) return RandomVaries();
  return Tensor(session_->Random(
      NumElements(shape), [&](const RandomState& state) { return Uniform(state, shape, dtype); }));
}
Tensor Client::Randn(absl::Span<const int64_t> shape, DType dtype) const {
  if (AnyVaries(shape)) return RandomVaries();
  // A float64 takes two blocks.
  const uint64_t blocks = dtype == DType::kFloat64 ? 2 : 1;
  return Tensor(session_->Random(blocks * NumElements(shape), [&](const RandomState& state) {
    return Normal(state, shape, dtype);
  }));
}
Tensor Client::RandInt(absl::Span<const int64_t> shape, int64_t low, int64_t high,
                       DType dtype) const {
  if (AnyVaries(shape)) return RandomVaries();
  return Tensor(session_->Random(NumElements(shape), [&](const RandomState& state) {
    return tensord::RandInt(state, shape, low, high, dtype);
  }));
}

Tensor Client::Variable(std::string_view name, int64_t min, int64_t max) const {
  return Make([&](Graph& graph) {
    if (min > max || min < IntMin(DType::kInt32) || max > IntMax(DType::kInt32)) {
      return Expr(&graph, InvalidArgument("variable '{}': bounds {} and {} are no range of int32",
                                          name, min, max));
    }
    return Expr(&graph, graph.Variable(name, min, max, DType::kInt32));
  });
}

absl::StatusOr<v1::CountersReply> Client::Counters() const {
  // Commands that are still under way count as well. Of a session that was closed there are none.
  if (session_->connection()->status().ok()) TD_RETURN_IF_ERROR(Wait());
  return session_->connection()->Counters(session_->Deadline());
}

absl::StatusOr<v1::PublishReply> Client::Publish(const std::string& name, const Tensors& tensors,
                                                 absl::Span<const std::string> readers) const {
  client::Session::Tensors states;
  for (const auto& [key, tensor] : tensors) states.emplace_back(key, tensor.state());
  return session_->Publish(name, states, readers);
}

absl::StatusOr<Client::Tensors> Client::Attach(const std::string& name,
                                               const std::string& owner) const {
  TD_ASSIGN_OR_RETURN(client::Session::Tensors states, session_->Attach(name, owner));
  Tensors tensors;
  for (auto& [key, state] : states) tensors.emplace_back(key, Tensor(std::move(state)));
  return tensors;
}

absl::StatusOr<std::vector<v1::Publication>> Client::Published() const {
  TD_ASSIGN_OR_RETURN(const v1::ListPublishedReply reply,
                      session_->connection()->ListPublished(session_->Deadline()));
  return std::vector<v1::Publication>(reply.publications().begin(), reply.publications().end());
}

absl::Status Client::Unpublish(const std::string& name) const {
  return session_->connection()->Unpublish(name, session_->Deadline());
}

absl::StatusOr<v1::ExplainReply> Client::Explain() const {
  return session_->connection()->Explain(session_->Deadline());
}

}  // namespace tensord
