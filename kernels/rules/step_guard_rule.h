// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/rules/gradient_state_rule.h"
#include "kernels/step_records.h"

namespace shampoo::kernels {

/// StepGuard::admit()
SHAMPOO_RULE void admit_step(const StepPermit& permit, std::int32_t offers,
                             const GradientRules& rules, StepRecords& records) {
  ReplayCounter& counter = records.runs;
  ScanResult& result = records.scan;
  records.directions = {};
  const bool overflows = result.first_bad >= 0;
  const bool repeated = permit.generation != 0 && permit.generation == counter.last_generation;
  ++(repeated ? counter.repeated : counter.count);
  counter.last_generation = permit.generation;
  const bool fits = (permit.needs & ~offers) == 0;
  if (!fits) result.first_bad = needs_refresh;
  const bool admitted = fits && !repeated && permit.permitted != 0;
  if (!admitted) result.proceed = 0;
  judge_gradients(rules, admitted, overflows, result, records.gradients);
}

/// Copies word i of all records, back to back; returns whether it agrees with the first record.
SHAMPOO_RULE bool compare_word(const RecordArray& records, std::int64_t i, void* gathered) {
  const auto record = [&](std::int64_t r) {
    return reinterpret_cast<const std::uint32_t*>(static_cast<const char*>(records.array) +
                                                  records.begins[r]);
  };
  const std::int64_t words = records.bytes / 4, r = i / words, w = i % words;
  const std::uint32_t word = record(r)[w];
  static_cast<std::uint32_t*>(gathered)[i] = word;
  const bool must_equal = w >= records.first_equal / 4 && w < records.last_equal / 4;
  return !(must_equal && word != record(0)[w]) && !(w == records.flag / 4 && word == 0);
}

}  // namespace shampoo::kernels
