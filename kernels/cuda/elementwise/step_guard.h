// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/launch/reduce.h"
#include "kernels/rules/step_guard_rule.h"

namespace shampoo::kernels::cuda {

/// StepGuard::admit(). One block of threads.
struct Admit {
  static constexpr int threads = 32;
  struct Shared {};

  const StepPermit* permit = nullptr;
  std::int32_t offers = 0;
  GradientRules rules = {};
  StepRecords* records = nullptr;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared&) const {
    block.each([&](int thread) {
      if (thread == 0) admit_step(*permit, offers, rules, *records);
    });
  }
};

/// StepGuard::compare(), word by word. One block of threads.
struct Compare {
  static constexpr int threads = 256;
  struct Shared {
    std::int32_t agree[threads];
  };

  RecordArray records;
  void* gathered = nullptr;
  std::int32_t* proceed = nullptr;

  template <typename Threads>
  SHAMPOO_BOTH void operator()(Threads& block, Shared& shared) const {
    const std::int64_t words = records.count * (records.bytes / 4);
    block.each([&](int thread) {
      std::int32_t agree = 1;
      for (std::int64_t i = thread; i < words; i += threads)
        if (!compare_word(records, i, gathered)) agree = 0;
      shared.agree[thread] = agree;
    });
    reduce(block, shared.agree, [](std::int32_t a, std::int32_t b) { return a & b; });
    block.each([&](int thread) {
      if (thread == 0 && shared.agree[0] == 0) *proceed = 0;
    });
  }
};

}  // namespace shampoo::kernels::cuda
