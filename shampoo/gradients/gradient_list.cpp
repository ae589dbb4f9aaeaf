// SPDX-License-Identifier: Apache-2.0
#include "shampoo/gradients/gradient_list.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace shampoo {

void check_shapes(std::span<const Parameter> parameters) {
  for (const Parameter& parameter : parameters) {
    const bool has_sides =
        std::ranges::all_of(parameter.shape, [](std::int64_t side) { return side >= 0; });
    for (const Tensor* const tensor : {&parameter.value, &parameter.gradient}) {
      const std::size_t strides = tensor->strides.size();
      if (!has_sides || (strides != 0 && strides != parameter.shape.size()))
        throw std::invalid_argument("parameter '" + parameter.name +
                                    "': shape must have sides >= 0, and strides one for each side");
      if (tensor->type > Type::float16)
        throw std::invalid_argument("parameter '" + parameter.name +
                                    "': type must be float64, float32, bfloat16 or float16");
    }
  }
}

GradientList::GradientList(kernels::Backend& backend, std::span<const Parameter> parameters,
                           std::span<const Tensor> to)
    : backend_(backend),
      columns_(backend),
      to_(columns_.add<void*>(parameters.size())),
      gradients_(columns_.add<const void*>(parameters.size())),
      to_types_(columns_.add<Type>(parameters.size())),
      gradient_types_(columns_.add<Type>(parameters.size())),
      weights_(columns_.add<double>(2)),
      scan_(backend, sizeof(kernels::ScanResult)),
      settled_(backend) {
  columns_.allocate();
  for (std::size_t j = 0; j < parameters.size(); ++j) {
    table_.append_whole(
        {.shape = parameters[j].shape, .value = to[j], .gradient = parameters[j].gradient},
        static_cast<int>(j));
    to_[j] = to[j].data;
    to_types_[j] = to[j].type;
    gradients_[j] = parameters[j].gradient.data;
    gradient_types_[j] = parameters[j].gradient.type;
    for (const Type type : {to[j].type, parameters[j].gradient.type})
      if (type == Type::float64) arithmetic_ = Type::float64;
  }
  table_.upload(backend_);
}

kernels::Tensors GradientList::upload(double keep, double add) {
  weights_[0] = keep;
  weights_[1] = add;
  columns_.upload();
  return {to_.data(), gradients_.data(), to_types_.data(), gradient_types_.data()};
}

void GradientList::accumulate(double keep, double add) {
  const kernels::Tensors tensors = upload(keep, add);
  backend_.accumulate(table_.elements(arithmetic_, tensors), weights_.data(), weights_.data() + 1);
}

void GradientList::scale(double factor) {
  kernels::Tensors tensors = upload(factor, 0);
  tensors.gradients = nullptr;
  backend_.accumulate(table_.elements(arithmetic_, tensors), weights_.data(), weights_.data() + 1);
}

double GradientList::squared_norm() {
  const kernels::Tensors tensors = upload(1, 1);
  kernels::ScanResult result;
  backend_.scan(table_.elements(arithmetic_, tensors), weights_.data(), false,
                static_cast<kernels::ScanResult*>(scan_.data()));
  backend_.download(&result, scan_.data(), sizeof(result));
  backend_.synchronize();
  return result.squared_norm;
}

}  // namespace shampoo
