// SPDX-License-Identifier: Apache-2.0
#include "shampoo/gradients.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "grouping/box.h"
#include "kernels/rules/gradient_state_rule.h"
#include "shampoo/gradients/gradient_list.h"
#include "shampoo/validation/checks.h"
#include "shampoo/validation/validate_parameters.h"

namespace shampoo {

double clip_gradient_norm(Backend& backend, std::span<const Parameter> parameters,
                          double max_norm) {
  Checks("clip_gradient_norm").positive("max_norm", max_norm);
  check_shapes(parameters);
  std::vector<Tensor> gradients;
  std::vector<const Parameter*> addresses;
  for (const Parameter& parameter : parameters) {
    gradients.push_back(parameter.gradient);
    addresses.push_back(&parameter);
  }
  require_distinct_gradients("clip_gradient_norm", addresses);
  GradientList list(kernels::kernels_of(backend), parameters, gradients);
  const double squared_norm = list.squared_norm();
  const double factor = kernels::clip_factor(max_norm, squared_norm);
  if (factor < 1) list.scale(factor);
  return std::sqrt(squared_norm);
}

struct GradientAccumulator::Parts {
  Parts(kernels::Backend& b, std::vector<Parameter> from, const AccumulationOptions& o)
      : options(o), parameters(std::move(from)), present(parameters.size()) {
    if (options.sums.empty())
      allocate(b);
    else
      check_sums();
    std::vector<Tensor> to;
    for (std::size_t j = 0; j < parameters.size(); ++j) {
      check_gradient(parameters[j], parameters[j].gradient);
      to.push_back(sum(j));
      gradients.push_back(parameters[j].gradient);
      rows.emplace(parameters[j].name, j);
    }
    list.emplace(b, parameters, to);
    for (std::size_t j = 0; j < parameters.size(); ++j) parameters[j].gradient = to[j];
    if (!options.sums.empty()) list->scale(0);
  }

  void check_sums() {
    if (options.sums.size() != parameters.size())
      throw std::invalid_argument("accumulation: sums must have a tensor for each of " +
                                  std::to_string(parameters.size()) + " parameters, got " +
                                  std::to_string(options.sums.size()));
    for (std::size_t j = 0; j < parameters.size(); ++j) {
      const Tensor& sum = options.sums[j];
      const Type type = type_of(parameters[j]);
      const bool missing = sum.data == nullptr && grouping::numel(parameters[j].shape) > 0;
      if (missing || sum.type != type || !sum.strides.empty())
        throw std::invalid_argument("accumulation: sums: " + parameters[j].name +
                                    ": must be a row-major tensor in " +
                                    std::string(name_of(type)) + " without strides, and not null");
    }
    for (std::size_t j = 0; j < parameters.size(); ++j) {
      check_address(parameters[j], options.sums[j], "sums");
      const auto run = runs_of(options.sums[j], parameters[j].shape, static_cast<int>(j));
      sum_memory.insert(sum_memory.end(), run.begin(), run.end());
    }
    std::ranges::sort(sum_memory, {}, &ByteRange::first);
    for (std::size_t r = 1; r < sum_memory.size(); ++r)
      if (sum_memory[r].first < sum_memory[r - 1].last)
        fail_overlap(sum_memory[r], "that of " + parameters[sum_memory[r - 1].parameter].name);
    for (const Parameter& parameter : parameters) check_apart(parameter, parameter.value, "value");
  }

  [[noreturn]] void fail_overlap(const ByteRange& sum, const std::string& what) const {
    throw std::invalid_argument("accumulation: sums: " + parameters[sum.parameter].name +
                                ": must have memory of its own; it overlaps " + what);
  }
  /// Sums are written: nothing else may lie there.
  void check_apart(const Parameter& parameter, const Tensor& tensor, const char* what) const {
    if (!tensor.data || sum_memory.empty()) return;
    if (const ByteRange* const sum = overlapping(sum_memory, tensor, parameter.shape))
      fail_overlap(*sum, std::string("the ") + what + " of " + parameter.name);
  }
  static void check_address(const Parameter& parameter, const Tensor& tensor, const char* field) {
    const std::size_t size = size_of(tensor.type);
    if (reinterpret_cast<std::uintptr_t>(tensor.data) % size != 0)
      throw std::invalid_argument("accumulation: " + std::string(field) + ": " + parameter.name +
                                  ": must be aligned to its elements of " + std::to_string(size) +
                                  " bytes");
  }
  void check_gradient(const Parameter& parameter, const Tensor& gradient) const {
    check_address(parameter, gradient, "gradient");
    check_apart(parameter, gradient, "gradient");
  }

  void allocate(kernels::Backend& b) {
    constexpr std::size_t alignment = 64;
    std::size_t end = 0;
    for (const Parameter& parameter : parameters) {
      const auto elements = static_cast<std::size_t>(grouping::numel(parameter.shape));
      const std::size_t bytes = size_of(type_of(parameter)) * elements;
      begins.push_back(end);
      end += (bytes + alignment - 1) / alignment * alignment;
    }
    sums = kernels::Buffer(b, end);
  }
  static Type type_of(const Parameter& parameter) {
    return parameter.gradient.type == Type::float64 ? Type::float64 : Type::float32;
  }
  Tensor sum(std::size_t j) const {
    if (!options.sums.empty()) return options.sums[j];
    return {static_cast<char*>(sums.data()) + begins[j], type_of(parameters[j])};
  }

  AccumulationOptions options;
  std::vector<Parameter> parameters;  ///< with the sums as gradients
  std::vector<Tensor> gradients;      ///< of a micro-batch
  std::vector<bool> present;          ///< in one of them
  std::vector<ByteRange> sum_memory;  ///< of sums in tensors of the caller, by address
  std::vector<std::size_t> begins;    ///< in bytes
  std::unordered_map<std::string_view, std::size_t> rows;
  kernels::Buffer sums;
  std::optional<GradientList> list;
  int added = 0;
};

GradientAccumulator::GradientAccumulator(Backend& backend, std::vector<Parameter> parameters,
                                         const AccumulationOptions& options) {
  Checks("accumulation").at_least_one("micro_batches", options.micro_batches);
  check_shapes(parameters);
  parts_ = std::make_unique<Parts>(kernels::kernels_of(backend), std::move(parameters), options);
}

GradientAccumulator::~GradientAccumulator() = default;
GradientAccumulator::GradientAccumulator(GradientAccumulator&&) noexcept = default;
GradientAccumulator& GradientAccumulator::operator=(GradientAccumulator&&) noexcept = default;

const std::vector<Parameter>& GradientAccumulator::parameters() const { return parts_->parameters; }

void GradientAccumulator::set_gradient(std::size_t j, void* data) {
  if (j >= parts_->parameters.size())
    throw std::out_of_range("GradientAccumulator: there is no parameter " + std::to_string(j) +
                            " (it has " + std::to_string(parts_->parameters.size()) + ")");
  Tensor& gradient = parts_->gradients[j];
  void* const before = std::exchange(gradient.data, data);
  try {
    parts_->check_gradient(parts_->parameters[j], gradient);
  } catch (...) {
    gradient.data = before;
    throw;
  }
  parts_->list->set_gradient(j, data);
}

void GradientAccumulator::add() {
  const AccumulationOptions& options = parts_->options;
  if (parts_->added == options.micro_batches)
    throw std::logic_error("GradientAccumulator: all of " + std::to_string(options.micro_batches) +
                           " micro-batches were added since clear()");
  ++parts_->added;
  for (std::size_t j = 0; j < parts_->gradients.size(); ++j)
    if (parts_->gradients[j].data != nullptr) parts_->present[j] = true;
  parts_->list->accumulate(1, options.mean ? 1.0 / options.micro_batches : 1.0);
}

void GradientAccumulator::set_gradients(Group& group) const {
  const auto for_each_sum = [&](const auto& visit) {
    for (std::size_t i = 0; i < group.parameters().size(); ++i) {
      const auto found = parts_->rows.find(group.parameters()[i].name);
      if (found != parts_->rows.end()) visit(i, found->second);
    }
  };
  for_each_sum([&](std::size_t i, std::size_t j) {
    const Parameter& parameter = group.parameters()[i];
    const Parameter& sum = parts_->parameters[j];
    if (sum.shape != parameter.shape)
      throw std::invalid_argument(group.title() + ", parameter '" + parameter.name +
                                  "': shape: must be that of the sums, " +
                                  grouping::shape_text(sum.shape) + ", got " +
                                  grouping::shape_text(parameter.shape));
    validate_same_layout(parameter, group.title(), sum.gradient);
  });
  for_each_sum([&](std::size_t i, std::size_t j) {
    group.set_gradient(i, parts_->present[j] ? parts_->parameters[j].gradient.data : nullptr);
  });
}

void GradientAccumulator::clear() {
  parts_->added = 0;
  parts_->present.assign(parts_->present.size(), false);
  parts_->list->scale(0);
}

}  // namespace shampoo
