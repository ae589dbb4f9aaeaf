// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "tests/support/counting_backend.h"

namespace shampoo::test {

/// A backend that waits around every call of a step and adds up what the phases take. Whole steps
/// take longer than without it.
class PhaseTimes final : public CountingBackend {
 public:
  using CountingBackend::CountingBackend;

  /// Milliseconds since the last take(), per phase.
  std::map<std::string, double> take();

  void scan(const kernels::TileTable& gradients, const double* gradient_scale, bool skips,
            kernels::ScanResult* result) override;
  void accumulate_factors(const kernels::PassContext& context,
                          std::span<const kernels::Stack> stacks,
                          std::span<const kernels::Selection> selected,
                          const void* masters) override;
  void filter(const kernels::PassContext& context, const kernels::GradientPass& pass) override;
  void precondition(const kernels::PassContext& context, std::span<const kernels::Stack> stacks,
                    std::span<const kernels::Selection> selected, void* direction,
                    double* direction_norms) override;
  void update(const kernels::PassContext& context, const kernels::UpdatePass& pass) override;
  void filter_and_update(const kernels::PassContext& context,
                         const kernels::GradientPass& gradients,
                         const kernels::UpdatePass& pass) override;
  void precondition_and_update(const kernels::PassContext& context,
                               const kernels::GradientPass& gradients,
                               std::span<const kernels::Stack> stacks,
                               std::span<const kernels::Selection> present, double* direction_norms,
                               const kernels::UpdatePass& update) override;
  void orthogonalize_and_update(const kernels::PassContext& context,
                                const kernels::GradientPass& gradients,
                                std::span<const kernels::Stack> stacks,
                                std::span<const kernels::Selection> selected,
                                std::span<const kernels::PolarPlan> plans, double* direction_norms,
                                const kernels::UpdatePass& update) override;
  void apply(const kernels::TileTable& elements, const kernels::Mode* modes, const void* segments,
             const std::int32_t* proceed) override;

 private:
  template <typename Call>
  void time(const char* phase, const Call& call);

  std::map<std::string, double> times_;
};

}  // namespace shampoo::test
