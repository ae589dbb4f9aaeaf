// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/phase_times.h"

#include <chrono>
#include <utility>

namespace shampoo::test {

std::map<std::string, double> PhaseTimes::take() { return std::exchange(times_, {}); }

template <typename Call>
void PhaseTimes::time(const char* phase, const Call& call) {
  using Clock = std::chrono::steady_clock;
  synchronize();
  const Clock::time_point begin = Clock::now();
  call();
  synchronize();
  times_[phase] += std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

void PhaseTimes::scan(const kernels::TileTable& gradients, const double* gradient_scale, bool skips,
                      kernels::ScanResult* result) {
  time("scan", [&] { CountingBackend::scan(gradients, gradient_scale, skips, result); });
}

void PhaseTimes::accumulate_factors(const kernels::PassContext& context,
                                    std::span<const kernels::Stack> stacks,
                                    std::span<const kernels::Selection> selected,
                                    const void* masters) {
  time("factors", [&] { CountingBackend::accumulate_factors(context, stacks, selected, masters); });
}

void PhaseTimes::filter(const kernels::PassContext& context, const kernels::GradientPass& pass) {
  time("filter", [&] { CountingBackend::filter(context, pass); });
}

void PhaseTimes::precondition(const kernels::PassContext& context,
                              std::span<const kernels::Stack> stacks,
                              std::span<const kernels::Selection> selected, void* direction,
                              double* direction_norms) {
  time("precondition", [&] {
    CountingBackend::precondition(context, stacks, selected, direction, direction_norms);
  });
}

void PhaseTimes::update(const kernels::PassContext& context, const kernels::UpdatePass& pass) {
  time("update", [&] { CountingBackend::update(context, pass); });
}

void PhaseTimes::filter_and_update(const kernels::PassContext& context,
                                   const kernels::GradientPass& gradients,
                                   const kernels::UpdatePass& pass) {
  time("filter_and_update", [&] { CountingBackend::filter_and_update(context, gradients, pass); });
}

void PhaseTimes::precondition_and_update(const kernels::PassContext& context,
                                         const kernels::GradientPass& gradients,
                                         std::span<const kernels::Stack> stacks,
                                         std::span<const kernels::Selection> present,
                                         double* direction_norms,
                                         const kernels::UpdatePass& update) {
  time("precondition_and_update", [&] {
    CountingBackend::precondition_and_update(context, gradients, stacks, present, direction_norms,
                                             update);
  });
}

void PhaseTimes::orthogonalize_and_update(const kernels::PassContext& context,
                                          const kernels::GradientPass& gradients,
                                          std::span<const kernels::Stack> stacks,
                                          std::span<const kernels::Selection> selected,
                                          std::span<const kernels::PolarPlan> plans,
                                          double* direction_norms,
                                          const kernels::UpdatePass& update) {
  time("orthogonalize_and_update", [&] {
    CountingBackend::orthogonalize_and_update(context, gradients, stacks, selected, plans,
                                              direction_norms, update);
  });
}

void PhaseTimes::apply(const kernels::TileTable& elements, const kernels::Mode* modes,
                       const void* segments, const std::int32_t* proceed) {
  time("apply", [&] { CountingBackend::apply(elements, modes, segments, proceed); });
}

}  // namespace shampoo::test
