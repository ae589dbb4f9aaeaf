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

/// A parameter that was thawed has a later row, whose gradient is its gradient.
template <typename Visitor>
void for_each_gradient(std::span<const RegisteredParameter> parameters, const Visitor& visit) {
  for (const RegisteredParameter& registered : parameters)
    if (!registered.thawed) visit(registered);
}

/// A character for each gradient: '1' where a rank has it.
std::string present_somewhere(kernels::Backend& backend, Communicator& communicator,
                              std::span<const RegisteredParameter> parameters) {
  std::string present;
  for_each_gradient(parameters, [&](const RegisteredParameter& registered) {
    present += registered.parameter().gradient.data ? '1' : '0';
  });
  for (const std::string& of_rank : gather_texts(backend, communicator, present))
    std::ranges::transform(present, of_rank, present.begin(),
                           [](char a, char b) { return std::max(a, b); });
  return present;
}

}  // namespace

void GradientAverage::run(kernels::Backend& backend, Communicator& communicator,
                          std::span<const RegisteredParameter> parameters,
                          std::span<const std::unique_ptr<Group>> groups, const Zeros& zeros) {
  if (withdraws_) withdraw();
  std::erase_if(lent_, [](const Lent& lent) { return !lent.is_in_place(); });
  const std::string present = present_somewhere(backend, communicator, parameters);
  auto is_present = present.begin();
  std::vector<TensorSpan> spans;
  for_each_gradient(parameters, [&](const RegisteredParameter& registered) {
    if (*is_present++ == '0') return;
    const Parameter& parameter = registered.parameter();
    if (!parameter.gradient.data)
      lend(backend, *groups[static_cast<std::size_t>(registered.group_index)], registered.index,
           zeros);
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

void GradientAverage::withdraw() {
  for (const Lent& lent : lent_)
    if (lent.is_in_place()) lent.group->set_gradient(lent.parameter, nullptr);
  withdraws_ = false;
}

}  // namespace shampoo
