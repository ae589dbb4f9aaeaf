// SPDX-License-Identifier: Apache-2.0
#include "shampoo/validation/validate_state_dict.h"

#include <cmath>
#include <limits>
#include <set>
#include <stdexcept>

#include "grouping/number_text.h"
#include "shampoo/gradients/gradient_rules.h"

namespace shampoo {

namespace {

[[noreturn]] void fail(const std::string& what) {
  throw std::invalid_argument("state dict: " + what);
}

void require_count(const std::string& of, const char* field, std::int64_t value) {
  if (value < 0) fail(of + field + ": must be >= 0, got " + std::to_string(value));
}

/// Counts go on from here, and must not overflow.
constexpr std::int64_t most_steps = std::int64_t{1} << 53;
constexpr std::int64_t most_in_a_row = std::numeric_limits<std::int32_t>::max() - 1;

void require_counter(const std::string& of, const char* field, std::int64_t value,
                     std::int64_t most) {
  if (value < 0 || value > most)
    fail(of + field + ": must be in [0, " + std::to_string(most) + "], got " +
         std::to_string(value));
}

void validate_box(const StateTensor& tensor, const std::string& of) {
  const std::size_t order = tensor.shape.size();
  if (tensor.box.offset.size() != order || tensor.box.extent.size() != order)
    fail(of + "box: must have " + std::to_string(order) + " sides, as its shape");
  for (std::size_t k = 0; k < order; ++k) {
    require_count(of, "shape", tensor.shape[k]);
    require_count(of, "box.offset", tensor.box.offset[k]);
    require_count(of, "box.extent", tensor.box.extent[k]);
    if (tensor.box.extent[k] > tensor.shape[k] ||
        tensor.box.offset[k] > tensor.shape[k] - tensor.box.extent[k])
      fail(of + "box: must lie within the shape");
  }
  grouping::numel(tensor.shape);
}

void validate_tensor(const StateTensor& tensor) {
  if (tensor.layout > StateLayout::vector)
    fail("parameter '" + tensor.parameter + "', slot '" + tensor.slot + "': layout: is none");
  const std::string of = "'" + tensor.name() + "': ";
  if (tensor.type > Type::float16) fail(of + "type: is not a type");
  validate_box(tensor, of);
  const auto count = static_cast<std::uint64_t>(tensor.count());
  const std::size_t size = size_of(tensor.type);
  if (tensor.bytes.size() % size != 0 || tensor.bytes.size() / size != count)
    fail(of + "bytes: must be " + std::to_string(count) + " numbers of " + std::to_string(size) +
         " bytes, got " + std::to_string(tensor.bytes.size()) + " bytes");
}

void validate_parameter(const ParameterState& parameter) {
  const std::string of = "parameter '" + parameter.name + "': ";
  require_counter(of, "steps", parameter.steps, most_steps);
  if (!(parameter.averaging_weight_sum >= 0) || std::isinf(parameter.averaging_weight_sum))
    fail(of + "averaging_weight_sum: must be in [0, inf), got " +
         grouping::exact_text(parameter.averaging_weight_sum));
  for (const std::string& rate : parameter.own_rates) try {
      RateField{std::string_view(rate)};
    } catch (const std::invalid_argument& error) {
      fail(of + "own_rates: " + error.what());
    }
  for (const BlockState& block : parameter.blocks)
    require_counter(of, "blocks.failures", block.failures, most_in_a_row);
}

/// Anything else could not have been saved, and would spread.
void validate_gradient_state(const Progress& progress) {
  if (progress.loss_scale != 0 && !is_power_of_two(progress.loss_scale))
    fail("progress.loss_scale: must be 0 or a power of two, got " +
         grouping::exact_text(progress.loss_scale));
  require_counter("", "progress.good_steps", progress.good_steps, most_in_a_row);
  for (const double norm : progress.gradient_norms)
    if (!(norm >= 0) || std::isinf(norm))
      fail("progress.gradient_norms: must be in [0, inf), got " + grouping::exact_text(norm));
}

}  // namespace

void validate_state_dict(const StateDict& dict) {
  if (dict.format < 1 || dict.format > StateDict::newest_format)
    fail("format: must be in [1, " + std::to_string(StateDict::newest_format) + "], got " +
         std::to_string(dict.format) +
         (dict.library.empty() ? "" : " (made by version " + dict.library + ")"));
  require_counter("", "progress.attempts", dict.progress.attempts, most_steps);
  require_counter("", "progress.taken", dict.progress.taken, most_steps);
  require_counter("", "progress.skipped_in_a_row", dict.progress.skipped_in_a_row, most_in_a_row);
  validate_gradient_state(dict.progress);

  std::set<std::string_view> parameters;
  for (const ParameterState& parameter : dict.parameters) {
    if (!parameters.insert(parameter.name).second)
      fail("parameter '" + parameter.name + "': is there twice");
    validate_parameter(parameter);
  }
  std::set<std::string> names;
  for (const StateTensor& tensor : dict.tensors) {
    validate_tensor(tensor);
    if (!parameters.contains(tensor.parameter))
      fail("'" + tensor.name() + "': there is no parameter '" + tensor.parameter + "'");
    if (!names.insert(tensor.name()).second) fail("'" + tensor.name() + "': is there twice");
  }
}

}  // namespace shampoo
