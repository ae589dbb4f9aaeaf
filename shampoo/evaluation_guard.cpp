// SPDX-License-Identifier: Apache-2.0
#include <exception>
#include <utility>

#include "shampoo/optimizer.h"

namespace shampoo {

Evaluation::Evaluation(std::weak_ptr<const std::function<void(bool)>> end)
    : end_(std::move(end)), exceptions_(std::uncaught_exceptions()) {}

Evaluation::~Evaluation() {
  const bool unwinding = std::uncaught_exceptions() > exceptions_;
  try {
    if (const auto end = std::exchange(end_, {}).lock()) (*end)(unwinding);
  } catch (...) {  // the optimizer is disabled, and throws it from now on
  }
}

void Evaluation::end() {
  if (const auto end = std::exchange(end_, {}).lock()) (*end)(false);
}

}  // namespace shampoo
