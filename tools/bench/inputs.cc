#include "tools/bench/inputs.h"

#include <cstring>
#include <random>

#include "core/base/status.h"

namespace tensord {

std::string InputBytes(const Node* input) {
  const std::vector<int64_t> shape(input->shape.begin(), input->shape.end());
  const size_t count = static_cast<size_t>(NumElements(shape));
  std::string bytes(count * static_cast<size_t>(ItemSize(input->dtype)), '\0');
  std::minstd_rand random(static_cast<uint32_t>(input->slot()) + 1);
  if (input->dtype == DType::kFloat32) {
    for (size_t i = 0; i < count; ++i) {
      const float value = static_cast<float>(random() % 4096) * (0.1f / 4096);
      std::memcpy(&bytes[i * sizeof(value)], &value, sizeof(value));
    }
  } else if (!IsFloat(input->dtype)) {
    for (char& byte : bytes) byte = static_cast<char>(random() % 10);
  }
  return bytes;
}

absl::StatusOr<std::vector<BufferRef>> MakeInputs(const Program& program, Device& device) {
  std::vector<BufferRef> inputs;
  for (const Node* input : program.inputs) {
    const std::string bytes = InputBytes(input);
    auto buffer = std::make_shared<Buffer>(
        Buffer{input->dtype, {input->shape.begin(), input->shape.end()}, nullptr});
    TD_ASSIGN_OR_RETURN(buffer->memory, device.allocator().Allocate(bytes.size()));
    std::memcpy(buffer->memory->host_address(), bytes.data(), bytes.size());
    inputs.push_back(std::move(buffer));
  }
  return inputs;
}

}  // namespace tensord
