// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "tests/support/counting_backend.h"

namespace shampoo::test {

/// A backend whose decompositions fail if `fails` returns true.
class FailingBackend : public CountingBackend {
 public:
  using CountingBackend::CountingBackend;

  void eigh(std::span<const kernels::SquareMatrixBatch> a, kernels::Eigensolver solver,
            std::int32_t* failed) override {
    CountingBackend::eigh(a, solver, failed);
    for (const kernels::SquareMatrixBatch& group : a)
      for (std::int64_t i = 0; i < group.count; ++i)
        if (fails(group, solver, attempts)) failed[group.first + i] = 17;
    ++attempts;
  }

  std::function<bool(const kernels::SquareMatrixBatch&, kernels::Eigensolver, int)> fails =
      [](const auto&, auto, auto) { return false; };
  int attempts = 0;
};

}  // namespace shampoo::test
