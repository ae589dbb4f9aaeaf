// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/cpu/floating_mode.h"
#include "kernels/cpu/host_backend.h"
#include "kernels/cpu/tile_work.h"
#include "kernels/cpu/with_real.h"
#include "kernels/rules/arithmetic.h"
#include "kernels/rules/grafting.h"
#include "kernels/rules/step_guard_rule.h"
#include "kernels/rules/update_rule.h"

namespace shampoo::kernels {

namespace {

/// Elements that one thread works through in the time that it takes to share them.
constexpr std::int64_t serial_elements = 32768;

bool is_small(const TileTable& elements) {
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < elements.tile_count && sum <= serial_elements; ++i)
    sum += static_cast<std::int64_t>(elements.tiles[i].rows) * elements.tiles[i].columns;
  return sum <= serial_elements;
}

Work work_without_step(const TileTable& elements, std::int64_t index, const Coefficients& none) {
  const Tile& tile = elements.tiles[index];
  return {elements.tensors, tile, elements.blocks[tile.block], none};
}

/// A tile's elements in a flat slot.
template <typename Real, typename Slot>
auto* tile_of(Slot* slot, const Work& work) {
  using Element = std::conditional_t<std::is_const_v<Slot>, const Real, Real>;
  return static_cast<Element*>(slot) + work.tile.flat;
}

bool moves_in_double(const Work& work) {
  return kernels::moves_in_double(work.block.wire_type, work.tensors.value_types[work.tile.tensor]);
}

/// norms[block] <- the sum over its tiles, for preconditioned blocks.
void sum_tiles(const PassContext& context, const double* partials, double* norms) {
  if (norms == nullptr) return;
  for (std::int64_t i = 0; i < context.elements.block_count; ++i)
    if (context.modes[i] == Mode::preconditioned)
      norms[i] = sum_of_tiles(context.elements.blocks[i], partials);
}

}  // namespace

template <typename Body>
void CpuBackend::for_each_tile(const TileTable& elements, Body&& body) {
  constexpr std::int64_t most = 16, shares_per_worker = 8;
  const std::int64_t count = elements.tile_count;
  const std::int64_t grain =
      is_small(elements)
          ? count
          : std::clamp<std::int64_t>(count / (workers_.pool.size() * shares_per_worker), 1, most);
  workers_.pool.run(count, grain, [&](std::int64_t index, int) { body(index); });
}

template <typename Body>
void CpuBackend::for_each_present_tile(const PassContext& context, const void* masters,
                                       Body&& body) {
  for_each_tile(context.elements, [&](std::int64_t index) {
    const Work work = work_on(context, context.elements.tiles[index], masters);
    if (work.mode != Mode::absent) body(index, work);
  });
}

void CpuBackend::scan(const TileTable& gradients, const double* gradient_scale, bool skips,
                      ScanResult* result) {
  const FloatingMode mode;
  const bool in_double = gradients.arithmetic == Type::float64;
  const Tensors& tensors = gradients.tensors;
  for_each_tile(gradients, [&](std::int64_t index) {
    const Tile& tile = gradients.tiles[index];
    double& sum = gradients.partials[index];
    if (tensors.gradients[tile.tensor] == nullptr)
      sum = 0;
    else
      sum = level_.with(
          in_double && !gradients.blocks[tile.block].scans_in_float32,
          [&](const auto& level) { return level.scan(tensors, tile, *gradient_scale); });
  });

  ScanResult found;
  for (std::int64_t i = 0; i < gradients.tile_count; ++i) {
    found.squared_norm += gradients.partials[i];
    const std::int32_t tensor = gradients.tiles[i].tensor;
    if (std::isnan(gradients.partials[i]) && (found.first_bad < 0 || tensor < found.first_bad))
      found.first_bad = tensor;
  }
  if (skips && found.first_bad >= 0) found.proceed = 0;
  *result = found;
}

void CpuBackend::scale_tensors(const TileTable& gradients, double max_norm,
                               const double* gradient_scale, double* scales) {
  const FloatingMode mode;
  for (std::int64_t b = 0; b < gradients.block_count; ++b) {
    const Block& block = gradients.blocks[b];
    const double squared_norm = sum_of_tiles(block, gradients.partials);
    scales[block.tensor] = *gradient_scale * clip_factor(max_norm, squared_norm);
  }
}

void CpuBackend::admit(const StepPermit* permit, std::int32_t offers, const GradientRules& rules,
                       StepRecords* records) {
  const FloatingMode mode;
  admit_step(*permit, offers, rules, *records);
}

void CpuBackend::compare(const RecordArray& records, void* gathered, std::int32_t* proceed) {
  for (std::int64_t i = 0; i < records.count * (records.bytes / 4); ++i)
    if (!compare_word(records, i, gathered)) *proceed = 0;
}

void CpuBackend::accumulate(const TileTable& elements, const double* keep, const double* add) {
  for_each_tile(elements, [&](std::int64_t index) {
    const Coefficients none;
    const Work work = work_without_step(elements, index, none);
    if (elements.tensors.values[work.tile.tensor] == nullptr) return;
    level_.with(elements.arithmetic == Type::float64,
                [&](const auto& level) { level.accumulate_tile(work, *keep, *add); });
  });
}

void CpuBackend::read_values(const TileTable& elements, void* masters, void* slot) {
  for_each_tile(elements, [&](std::int64_t index) {
    const Coefficients none;
    const Work work = work_without_step(elements, index, none);
    if (masters != nullptr && work.block.master >= 0)
      level_.in_float.read_masters(work, static_cast<float*>(masters));
    if (slot == nullptr) return;
    with_real(elements.arithmetic, [&]<typename Real>(Real*) {
      level_.in<Real>().read_slot(work, static_cast<Real*>(slot));
    });
  });
}

void CpuBackend::filter(const PassContext& context, const GradientPass& pass) {
  if (*context.proceed == 0) return;
  const FloatingMode mode;
  const TileTable& elements = context.elements;
  const ElementwiseDirection* const grafting = pass.grafting ? &*pass.grafting : nullptr;
  double* const direction_partials = elements.partials + elements.tile_count;
  for_each_present_tile(context, pass.masters, [&](std::int64_t index, const Work& work) {
    with_real(elements.arithmetic, [&]<typename Real>(Real*) {
      const TileNorms norms =
          level_.in<Real>().filter(work, pass, grafting, tile_of<Real>(pass.direction, work));
      elements.partials[index] = norms.grafting;
      direction_partials[index] = norms.direction;
    });
  });
  if (grafting != nullptr) sum_tiles(context, elements.partials, pass.grafting_norms);
  sum_tiles(context, direction_partials, pass.direction_norms);
}

void CpuBackend::graft_directions(const PassContext& context, const UpdatePass& pass,
                                  void* direction) {
  if (*context.proceed == 0) return;
  const bool in_double = context.elements.arithmetic == Type::float64;
  for_each_present_tile(context, pass.masters, [&](std::int64_t, const Work& work) {
    level_.with(in_double, [&](const auto& level) { level.graft(work, pass, direction); });
  });
}

void CpuBackend::measure_directions(const PassContext& context, const UpdatePass& pass,
                                    DirectionSums* sums) {
  if (*context.proceed == 0) return;
  const FloatingMode mode;
  const TileTable& elements = context.elements;
  double* const mixed = elements.partials + elements.tile_count;
  double* const values = mixed + elements.tile_count;
  for_each_present_tile(context, pass.masters, [&](std::int64_t index, const Work& work) {
    const DirectionSums of_tile =
        level_.with(elements.arithmetic == Type::float64,
                    [&](const auto& level) { return level.measure(work, pass); });
    elements.partials[index] = of_tile.direction;
    mixed[index] = of_tile.mixed;
    values[index] = of_tile.values;
  });
  for (std::int64_t i = 0; i < elements.block_count; ++i)
    if (context.modes[i] != Mode::absent)
      sums[i] = {sum_of_tiles(elements.blocks[i], elements.partials),
                 sum_of_tiles(elements.blocks[i], mixed), sum_of_tiles(elements.blocks[i], values)};
}

void CpuBackend::update(const PassContext& context, const UpdatePass& pass) {
  if (*context.proceed == 0) return;
  for_each_present_tile(context, pass.masters, [&](std::int64_t, const Work& work) {
    with_real(context.elements.arithmetic, [&]<typename Real>(Real*) {
      level_.in<Real>().update(work, pass, tile_of<Real>(pass.direction, work));
    });
  });
  finish_update(context, pass);
}

void CpuBackend::finish_update(const PassContext& context, const UpdatePass& pass) {
  const FloatingMode mode;
  project(context, pass);
  if (pass.non_finite == nullptr) return;
  for (std::int64_t b = 0; b < context.elements.block_count; ++b)
    count_direction(context, pass, static_cast<std::int32_t>(b), *pass.non_finite);
}

void CpuBackend::filter_and_update(const PassContext& context, const GradientPass& gradients,
                                   const UpdatePass& pass) {
  if (*context.proceed == 0) return;
  const bool in_double = context.elements.arithmetic == Type::float64;
  for_each_present_tile(context, pass.masters, [&](std::int64_t, const Work& work) {
    level_.with(in_double,
                [&](const auto& level) { level.filter_and_update(work, gradients, pass); });
  });
  project(context, pass);
}

void CpuBackend::project(const PassContext& context, const UpdatePass& pass) {
  if (pass.projection.rule == ProjectionRule::none) return;
  const FloatingMode mode;
  const TileTable& elements = context.elements;
  const bool in_double = elements.arithmetic == Type::float64;
  if (pass.projection.rule == ProjectionRule::unit_norm) {
    for_each_present_tile(context, pass.masters, [&](std::int64_t index, const Work& work) {
      elements.partials[index] = level_.with(
          in_double, [&](const auto& level) { return level.new_value_norm(work, pass); });
    });
    for (std::int64_t i = 0; i < elements.block_count; ++i)
      if (context.modes[i] != Mode::absent)
        pass.projection.squared_norms[i] = sum_of_tiles(elements.blocks[i], elements.partials);
  }
  for_each_present_tile(context, pass.masters, [&](std::int64_t, const Work& work) {
    level_.with(in_double, [&](const auto& level) {
      level.project_values(work, pass);
      level.average_values(work, pass);
    });
  });
}

void CpuBackend::apply(const TileTable& elements, const Mode* modes, const void* segments,
                       const std::int32_t* proceed) {
  if (*proceed == 0) return;
  for_each_tile(elements, [&](std::int64_t index) {
    const Coefficients none;
    const Work work = work_without_step(elements, index, none);
    if (modes[work.tile.block] == Mode::absent) return;
    level_.with(moves_in_double(work), [&](const auto& level) { level.apply(work, segments); });
  });
}

void CpuBackend::pack_values(const TileTable& elements, void* segments) {
  for_each_tile(elements, [&](std::int64_t index) {
    const Coefficients none;
    const Work work = work_without_step(elements, index, none);
    level_.with(moves_in_double(work),
                [&](const auto& level) { level.pack_values(work, segments); });
  });
}

void CpuBackend::evaluate(const TileTable& elements, const EvaluationPass& pass) {
  for_each_tile(elements, [&](std::int64_t index) {
    const Coefficients none;
    Work work = work_without_step(elements, index, none);
    work.masters = static_cast<const float*>(pass.masters);
    level_.with(elements.arithmetic == Type::float64,
                [&](const auto& level) { level.evaluate(work, pass); });
  });
}

}  // namespace shampoo::kernels
