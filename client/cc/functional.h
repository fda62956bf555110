// Operations that take functions of tensors: loops that run on the device, and derivatives said by
// hand. They mean what they mean in core/tensor/loop.h and custom_gradient.h.
//
//   // x -> 2x until it is above 100
//   auto last = WhileLoop({x}, [](absl::Span<const Tensor> s) { return s[0] < 100; },
//                         [](absl::Span<const Tensor> s) { return std::vector{s[0] * 2}; });
#pragma once

#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <functional>
#include <vector>

#include "client/cc/operations.h"
#include "client/cc/tensor.h"
#include "core/tensor/loop.h"

namespace tensord {

namespace tensors {
using LoopBody = std::function<std::vector<Tensor>(absl::Span<const Tensor> states)>;
using LoopCondition = std::function<Tensor(absl::Span<const Tensor> states)>;
using CountedBody =
    std::function<std::vector<Tensor>(const Tensor& i, absl::Span<const Tensor> states)>;
using ScanBody = std::function<ScanStep(const Tensor& i, absl::Span<const Tensor> states,
                                        absl::Span<const Tensor> rows)>;
using GradientRule = std::function<std::vector<Tensor>(const Tensor& incoming)>;
using GradientsRule = std::function<std::vector<Tensor>(absl::Span<const Tensor> incoming)>;
}  // namespace tensors

absl::StatusOr<std::vector<Tensor>> WhileLoop(absl::Span<const Tensor> initial,
                                              const tensors::LoopCondition& condition,
                                              const tensors::LoopBody& body,
                                              int64_t most = kUnlimited);
absl::StatusOr<std::vector<Tensor>> ForLoop(int64_t count, absl::Span<const Tensor> initial,
                                            const tensors::CountedBody& body);
absl::StatusOr<tensors::Scanned> ScanLoop(int64_t count, absl::Span<const Tensor> initial,
                                          absl::Span<const Tensor> xs,
                                          const tensors::ScanBody& body, bool reverse = false);

Tensor WithGradient(const Tensor& value, absl::Span<const Tensor> inputs,
                    const tensors::GradientRule& rule);
Tensor WithGradient(const Tensor& value, absl::Span<const Tensor> inputs, const Tensor& stand_in,
                    absl::Span<const Tensor> gradients);
absl::StatusOr<std::vector<Tensor>> WithGradients(absl::Span<const Tensor> values,
                                                  absl::Span<const Tensor> inputs,
                                                  const tensors::GradientsRule& rule);

}  // namespace tensord
