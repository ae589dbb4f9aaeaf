// SPDX-License-Identifier: Apache-2.0
#include "shampoo/gradients/gradient_average.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "distributor/text_consensus.h"
#include "shampoo/validation/validate_parameters.h"

namespace shampoo {

namespace {

template <typename Visitor>
void for_each_parameter(std::span<const std::unique_ptr<Group>> groups, const Visitor& visit) {
  for (const auto& group : groups)
    for (std::size_t j = 0; j < group->parameters().size(); ++j) visit(*group, j);
}

/// A character for each parameter: '1' where a rank has its gradient.
std::string present_somewhere(kernels::Backend& backend, Communicator& communicator,
                              std::span<const std::unique_ptr<Group>> groups) {
  std::string present;
  for_each_parameter(groups, [&](const Group& group, std::size_t j) {
    present += group.parameters()[j].gradient.data ? '1' : '0';
  });
  for (const std::string& of_rank : gather_texts(backend, communicator, present))
    std::ranges::transform(present, of_rank, present.begin(),
                           [](char a, char b) { return std::max(a, b); });
  return present;
}

}  // namespace

void GradientAverage::run(kernels::Backend& backend, Communicator& communicator,
                          std::span<const std::unique_ptr<Group>> groups, const Zeros& zeros) {
  take_back();
  const std::string present = present_somewhere(backend, communicator, groups);
  auto is_present = present.begin();
  std::vector<TensorSpan> spans;
  for_each_parameter(groups, [&](Group& group, std::size_t j) {
    if (*is_present++ == '0') return;
    if (!group.parameters()[j].gradient.data) lend(backend, group, j, zeros);
    const Parameter& parameter = group.parameters()[j];
    const Type type = parameter.gradient.type;
    for (const ByteRange& run : runs_of(parameter.gradient, parameter.shape, 0))
      spans.push_back({reinterpret_cast<void*>(run.first),
                       static_cast<std::int64_t>((run.last - run.first) / size_of(type)), type});
  });
  communicator.average(spans, {backend.stream()});
}

void GradientAverage::lend(kernels::Backend& backend, Group& group, std::size_t j,
                           const Zeros& zeros) {
  const Parameter& parameter = group.parameters()[j];
  if (zeros) {
    group.set_gradient(j, zeros(parameter));
    if (parameter.gradient.data) return;
    throw std::invalid_argument(group.title() + ", parameter '" + parameter.name +
                                "': zeros: must not be null");
  }
  std::size_t bytes = 1;  // an empty gradient is present, too
  for (const ByteRange& run : runs_of(parameter.gradient, parameter.shape, 0))
    bytes = std::max<std::size_t>(bytes, run.last);
  lent_.push_back({&group, j, kernels::Buffer(backend, bytes)});
  group.set_gradient(j, lent_.back().memory.data());
}

void GradientAverage::take_back() {
  for (const Lent& lent : std::exchange(lent_, {}))
    if (lent.group->parameters()[lent.parameter].gradient.data == lent.memory.data())
      lent.group->set_gradient(lent.parameter, nullptr);
}

}  // namespace shampoo
