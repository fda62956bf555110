#include "client/cc/value.h"

#include <fmt/format.h>

#include <utility>

#include "client/cc/session.h"
#include "core/tensor/size.h"

namespace tensord::client {

std::string TextOf(absl::Span<const int64_t> shape) {
  std::string text;
  for (int64_t size : shape) text += (text.empty() ? "" : ", ") + SizeText(size);
  return "[" + text + "]";
}

namespace {

std::vector<uint64_t> NewHandles(Connection& connection, size_t count) {
  std::vector<uint64_t> handles;
  for (size_t i = 0; i < count; ++i) handles.push_back(connection.NewHandle(Handle::kTensor));
  return handles;
}

}  // namespace

Buffer::Buffer(std::shared_ptr<Connection> connection, uint64_t bytes, Placement placement)
    : connection(std::move(connection)),
      placement(std::move(placement)),
      bytes(this->placement.axis == kWhole ? bytes : bytes / this->placement.devices.size()),
      handles(NewHandles(*this->connection, this->placement.devices.size())) {}

Buffer::~Buffer() {
  for (uint64_t handle : handles) connection->Release(handle, bytes);
}

uint64_t Value::bytes() const {
  int64_t elements = 1;
  for (int64_t size : shape) elements *= SizeHigh(size);
  return static_cast<uint64_t>(elements) * static_cast<uint64_t>(ItemSize(dtype));
}

Value::Value(std::shared_ptr<LiveValues> live, DType dtype, std::vector<int64_t> shape)
    : dtype(dtype), shape(std::move(shape)), live_(std::move(live)) {
  live_->Insert(this);
}

void Value::SetFile(std::shared_ptr<const File> data) {
  live_->in_files.fetch_add((data != nullptr) - (file != nullptr), std::memory_order_relaxed);
  file = std::move(data);
}

Value::~Value() {
  SetFile(nullptr);
  live_->Erase(this);
  // By hand, because a chain of expressions may be longer than the stack is deep.
  std::vector<std::shared_ptr<Value>> dying;
  const auto take_apart = [&dying](Value& value) {
    for (std::shared_ptr<Value>& parent : value.parents) dying.push_back(std::move(parent));
    value.parents.clear();
    if (value.dest) dying.push_back(std::move(value.dest));
    if (value.call && value.call.use_count() == 1) {
      for (CapturedCall::Input& input : value.call->inputs) {
        dying.push_back(std::move(input.value));
        for (std::shared_ptr<Value>& parent : input.parents) dying.push_back(std::move(parent));
      }
      value.call->inputs.clear();
    }
  };
  take_apart(*this);
  while (!dying.empty()) {
    const std::shared_ptr<Value> value = std::move(dying.back());
    dying.pop_back();
    if (value && value.use_count() == 1) take_apart(*value);
  }
}

}  // namespace tensord::client
