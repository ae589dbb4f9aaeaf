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

/// Reads arrays of the backend: where they are, or in a copy that the next call overwrites.
class HostView {
 public:
  explicit HostView(Backend& backend) : backend_(backend) { backend_.synchronize(); }

  /// Queues the copy; `to` must stay where it is.
  void copy(const void* data, std::vector<std::byte>& to) {
    backend_.download(to.data(), data, to.size());
  }

  std::span<const std::byte> operator()(const void* data, std::size_t bytes) {
    if (backend_.memory() == Memory::host) return {static_cast<const std::byte*>(data), bytes};
    if (data == data_ && bytes == bytes_) return {copy_.data(), bytes};
    if (copy_.size() < bytes) copy_.resize(bytes);
    backend_.download(copy_.data(), data, bytes);
    backend_.synchronize();
    data_ = data;
    bytes_ = bytes;
    return {copy_.data(), bytes};
  }

 private:
  Backend& backend_;
  std::vector<std::byte> copy_;
  const void* data_ = nullptr;  ///< what was copied; a factor and its root are the same array
  std::size_t bytes_ = 0;
};

void copy_slot(const Slot& slot, const void* data, HostView& view, StateTensor& tensor) {
  const std::size_t size = size_of(slot.type);
  tensor.bytes.resize(static_cast<std::size_t>(slot.count) * size);
  if (tensor.layout == StateLayout::elements) {
    view.copy(data, tensor.bytes);
    return;
  }
  const std::int64_t n = tensor.box.extent[slot.dimension];
  const Half half = slot.layout == Slot::Layout::upper_triangle ? Half::root : Half::factor;
  pack(view(data, static_cast<std::size_t>(n * (n + 1)) * size).data(), half, n, slot.type,
       tensor.bytes.data());
}

void collect_block(HostView& view, const GroupOptimizer& group, std::size_t b,
                   const TrainedParameter& trained, const StateDictOptions& options,
                   StateDict& dict) {
  const grouping::Box& box = trained.boxes[group.blocks()[b].index];
  const std::vector<Slot> slots = group.state().slots(static_cast<int>(b));
  for (const Slot& slot : slots) {
    if (slot.derived && !options.derived) continue;
    dict.tensors.push_back({.parameter = trained.parameter().name,
                            .slot = slot.name,
                            .shape = trained.merged,
                            .box = box,
                            .layout = layout_of(slot),
                            .dimension = slot.dimension,
                            .type = slot.type});
    if (options.contents)
      copy_slot(slot, group.state().data(static_cast<int>(b), slot), view, dict.tensors.back());
  }
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
  HostView view(backend);
  for (const auto& group : training.virtual_groups())
    for (std::size_t b = 0; b < group->blocks().size(); ++b) {
      const OwnedBlock& owned = group->blocks()[b];
      const TrainedParameter& trained = parameters[owned.parameter];
      dict.parameters[owned.parameter].blocks.push_back(
          {trained.boxes[owned.index], group->failures(b), owned.phase});
      collect_block(view, *group, b, trained, options, dict);
    }
  backend.synchronize();
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
