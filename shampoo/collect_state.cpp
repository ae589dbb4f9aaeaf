// SPDX-License-Identifier: Apache-2.0
#include "shampoo/collect_state.h"

#include <algorithm>

#include "distributor/library_version.h"
#include "shampoo/triangle.h"

namespace shampoo {

namespace {

ParameterState described(const TrainedParameter& trained) {
  return {.name = trained.parameter().name,
          .shape = trained.parameter().shape,
          .steps = trained.steps,
          .recipe = fields_of(trained.group->recipe()),
          .rates = trained.group->rates};
}

/// Copies the slots of one block to host memory.
class BlockReader {
 public:
  BlockReader(Backend& backend, const State& state, int block)
      : backend_(backend), state_(state), block_(block) {}

  /// Queues the copy; the tensor must stay where it is.
  void start(const Slot& slot, StateTensor& tensor) {
    const std::size_t size = size_of(slot.type);
    tensor.bytes.resize(static_cast<std::size_t>(slot.count) * size);
    if (tensor.layout == StateLayout::elements) {
      backend_.download(tensor.bytes.data(), state_.data(block_, slot), tensor.bytes.size());
      return;
    }
    const auto n = static_cast<std::size_t>(tensor.box.extent[slot.dimension]);
    arrays_.emplace_back(n * (n + 1) * size);
    backend_.download(arrays_.back().data(), state_.data(block_, slot), arrays_.back().size());
    const Half half = slot.layout == Slot::Layout::upper_triangle ? Half::root : Half::factor;
    triangles_.push_back({&tensor, half});
  }

  void finish() {
    backend_.synchronize();
    for (std::size_t t = 0; t < triangles_.size(); ++t) {
      StateTensor& tensor = *triangles_[t].tensor;
      pack(arrays_[t].data(), triangles_[t].half, tensor.box.extent[tensor.dimension], tensor.type,
           tensor.bytes.data());
    }
  }

 private:
  struct Triangle {
    StateTensor* tensor;
    Half half;
  };
  Backend& backend_;
  const State& state_;
  int block_;
  std::vector<std::vector<std::byte>> arrays_;
  std::vector<Triangle> triangles_;
};

void collect_block(Backend& backend, const GroupOptimizer& group, std::size_t b,
                   const TrainedParameter& trained, const StateDictOptions& options,
                   StateDict& dict) {
  const grouping::Box& box = trained.boxes[group.blocks()[b].index];
  const std::vector<Slot> slots = group.state().slots(static_cast<int>(b));
  BlockReader reader(backend, group.state(), static_cast<int>(b));
  for (const Slot& slot : slots) {
    if (slot.derived && !options.derived) continue;
    dict.tensors.push_back({.parameter = trained.parameter().name,
                            .slot = slot.name,
                            .shape = trained.merged,
                            .box = box,
                            .layout = layout_of(slot),
                            .dimension = slot.dimension,
                            .type = slot.type});
    if (options.contents) reader.start(slot, dict.tensors.back());
  }
  reader.finish();
}

}  // namespace

StateDict collect_state(Backend& backend, const Training& training,
                        const StateDictOptions& options) {
  const std::span<const TrainedParameter> parameters = training.parameters();
  StateDict dict{.library = std::string(library_version()), .arithmetic = backend.arithmetic()};
  for (const TrainedParameter& trained : parameters) dict.parameters.push_back(described(trained));

  std::size_t count = 0;
  for (const auto& group : training.virtual_groups())
    for (std::size_t b = 0; b < group->blocks().size(); ++b)
      count += group->state().slots(static_cast<int>(b)).size();
  dict.tensors.reserve(count);
  for (const auto& group : training.virtual_groups())
    for (std::size_t b = 0; b < group->blocks().size(); ++b) {
      const OwnedBlock& owned = group->blocks()[b];
      const TrainedParameter& trained = parameters[owned.parameter];
      dict.parameters[owned.parameter].blocks.push_back(
          {trained.boxes[owned.index], group->failures(b), owned.phase});
      collect_block(backend, *group, b, trained, options, dict);
    }
  sort_by_name(dict);
  return dict;
}

void sort_by_name(StateDict& dict) {
  std::ranges::sort(dict.parameters, {}, &ParameterState::name);
  for (ParameterState& parameter : dict.parameters)
    std::ranges::sort(parameter.blocks, {}, &BlockState::box);

  std::vector<std::pair<std::string, std::size_t>> order;
  for (std::size_t t = 0; t < dict.tensors.size(); ++t)
    order.emplace_back(dict.tensors[t].name(), t);
  std::ranges::sort(order);
  std::vector<StateTensor> sorted;
  sorted.reserve(order.size());
  for (const auto& [name, t] : order) sorted.push_back(std::move(dict.tensors[t]));
  dict.tensors = std::move(sorted);
}

}  // namespace shampoo
