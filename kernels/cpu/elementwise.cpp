// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cpu/host_backend.h"

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

Work work_on(const PassContext& phase, const Tile& tile, const void* masters) {
  return {phase.elements.tensors,
          tile,
          phase.elements.blocks[tile.block],
          phase.coefficients[tile.block],
          phase.modes[tile.block],
          *phase.gradient_scale,
          static_cast<const float*>(masters)};
}

/// Squared norm of every grafted block: the sum over its tiles, in order.
void sum_tiles(const PassContext& phase, double* norms) {
  const TileTable& elements = phase.elements;
  for (std::int64_t i = 0; i < elements.block_count; ++i) {
    if (phase.modes[i] != Mode::grafted) continue;
    const Block& block = elements.blocks[i];
    double sum = 0;
    for (std::int32_t k = 0; k < block.tile_count; ++k)
      sum += elements.partials[block.first_tile + k];
    norms[i] = sum;
  }
}

/// ||graft(F)|| / (||P|| + 1e-16)
double graft_to_direction(const Update& update, std::int32_t block) {
  return std::sqrt(update.graft_norms[block]) / (std::sqrt(update.direction_norms[block]) + 1e-16);
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

void CpuBackend::scan(const TileTable& gradients, const double* gradient_scale, bool refuses,
                      ScanResult* verdict) {
  const bool in_double = gradients.arithmetic == Type::float64;
  const Tensors& tensors = gradients.tensors;
  for_each_tile(gradients, [&](std::int64_t index) {
    const Tile& tile = gradients.tiles[index];
    double& sum = gradients.partials[index];
    if (tensors.gradients[tile.tensor] == nullptr)
      sum = 0;
    else if (in_double)
      sum = level_.in_double.scan(tensors, tile, *gradient_scale);
    else
      sum = level_.in_float.scan(tensors, tile, *gradient_scale);
  });

  ScanResult found;
  for (std::int64_t i = 0; i < gradients.tile_count; ++i) {
    found.squared_norm += gradients.partials[i];
    const std::int32_t tensor = gradients.tiles[i].tensor;
    if (std::isnan(gradients.partials[i]) && (found.first_bad < 0 || tensor < found.first_bad))
      found.first_bad = tensor;
  }
  if (refuses && found.first_bad >= 0) found.proceed = 0;
  *verdict = found;
}

void CpuBackend::admit(const StepPermit* admission, std::int32_t offers, ReplayCounter* runs,
                       ScanResult* verdict) {
  const bool repeated = admission->ticket != 0 && admission->ticket == runs->last_ticket;
  ++(repeated ? runs->repeated : runs->count);
  runs->last_ticket = admission->ticket;
  const bool fits = (admission->needs & ~offers) == 0;
  if (!fits) verdict->first_bad = unfit_step;
  if (!fits || repeated || admission->permitted == 0) verdict->proceed = 0;
}

void CpuBackend::compare(const RecordArray& records, void* gathered, std::int32_t* proceed) {
  const char* const array = static_cast<const char*>(records.array);
  const char* const first = array + records.begins[0];
  for (std::int64_t r = 0; r < records.count; ++r) {
    const char* const record = array + records.begins[r];
    std::memcpy(static_cast<char*>(gathered) + r * records.bytes, record,
                static_cast<std::size_t>(records.bytes));
    std::int32_t flag;
    std::memcpy(&flag, record + records.flag, sizeof(flag));
    if (flag == 0 ||
        std::memcmp(first + records.first_equal, record + records.first_equal,
                    static_cast<std::size_t>(records.last_equal - records.first_equal)) != 0)
      *proceed = 0;
  }
}

void CpuBackend::read_values(const TileTable& elements, void* masters) {
  for_each_tile(elements, [&](std::int64_t index) {
    const Tile& tile = elements.tiles[index];
    const Block& block = elements.blocks[tile.block];
    const Coefficients none;
    if (block.master >= 0)
      level_.in_float.read_values({elements.tensors, tile, block, none},
                                  static_cast<float*>(masters));
  });
}

void CpuBackend::filter(const PassContext& phase, const Filter& filter) {
  if (*phase.proceed == 0) return;
  const TileTable& elements = phase.elements;
  for_each_tile(elements, [&](std::int64_t index) {
    const Work work = work_on(phase, elements.tiles[index], filter.masters);
    if (work.mode == Mode::absent) return;
    elements.partials[index] = elements.arithmetic == Type::float64
                                   ? level_.in_double.filter(work, filter)
                                   : level_.in_float.filter(work, filter);
  });
  if (filter.graft != Graft::none && filter.graft_norms != nullptr)
    sum_tiles(phase, filter.graft_norms);
}

void CpuBackend::update(const PassContext& phase, const Update& update) {
  if (*phase.proceed == 0) return;
  const TileTable& elements = phase.elements;
  for_each_tile(elements, [&](std::int64_t index) {
    const Work work = work_on(phase, elements.tiles[index], update.masters);
    if (work.mode == Mode::absent) return;
    const double s = work.mode == Mode::grafted ? graft_to_direction(update, work.tile.block) : 1.0;
    if (elements.arithmetic == Type::float64)
      level_.in_double.update(work, update, s);
    else
      level_.in_float.update(work, update, static_cast<float>(s));
  });
}

void CpuBackend::apply(const TileTable& elements, const Mode* modes, const void* segments,
                       const std::int32_t* proceed) {
  if (*proceed == 0) return;
  for_each_tile(elements, [&](std::int64_t index) {
    const Tile& tile = elements.tiles[index];
    const Block& block = elements.blocks[tile.block];
    if (modes[tile.block] == Mode::absent) return;
    const Coefficients none;
    const Work work{elements.tensors, tile, block, none};
    // The wider of both types.
    if (block.shipped == Type::float64 ||
        elements.tensors.value_types[tile.tensor] == Type::float64)
      level_.in_double.apply(work, segments);
    else
      level_.in_float.apply(work, segments);
  });
}

}  // namespace shampoo::kernels
