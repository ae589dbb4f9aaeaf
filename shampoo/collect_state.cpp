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

/// A slot of a block that this rank owns.
struct OwnedSlot {
  const GroupOptimizer& group;
  int block;
  const TrainedParameter& trained;
  const grouping::Box& box;
  const Slot& slot;

  StateTensor tensor() const {
    return {.parameter = trained.parameter().name,
            .slot = slot.name,
            .shape = trained.merged,
            .box = box,
            .layout = layout_of(slot),
            .dimension = slot.dimension,
            .type = slot.type};
  }

  StateSource source() const {
    return {static_cast<const std::byte*>(group.state().data(block, slot)),
            slot.layout == Slot::Layout::upper_triangle ? Half::root : Half::factor};
  }
};

template <typename Visit>
void for_each_slot(const Training& training, bool derived, const Visit& visit) {
  for (const auto& group : training.virtual_groups())
    for (std::size_t b = 0; b < group->blocks().size(); ++b) {
      const OwnedBlock& owned = group->blocks()[b];
      const TrainedParameter& trained = training.parameters()[owned.parameter];
      const auto block = static_cast<int>(b);
      for (const Slot& slot : group->state().slots(block))
        if (derived || !slot.derived)
          visit(OwnedSlot{*group, block, trained, trained.boxes[owned.index], slot});
    }
}

void copy_slot(const OwnedSlot& from, HostView& view, StateTensor& tensor) {
  const std::size_t size = size_of(tensor.type);
  const StateSource source = from.source();
  tensor.bytes.resize(static_cast<std::size_t>(from.slot.count) * size);
  if (tensor.layout == StateLayout::elements) {
    view.copy(source.data, tensor.bytes);
    return;
  }
  const std::int64_t n = tensor.box.extent[tensor.dimension];
  const auto array = view(source.data, static_cast<std::size_t>(n * (n + 1)) * size);
  pack(array.data(), source.half, n, tensor.type, tensor.bytes.data());
}

}  // namespace

StateDict collect_state(Backend& backend, const Training& training,
                        const StateDictOptions& options) {
  const std::span<const TrainedParameter> parameters = training.parameters();
  StateDict dict{.library = std::string(library_version()), .arithmetic = backend.arithmetic()};
  for (const TrainedParameter& trained : parameters) dict.parameters.push_back(described(trained));

  for (const auto& group : training.virtual_groups())
    for (std::size_t b = 0; b < group->blocks().size(); ++b) {
      const OwnedBlock& owned = group->blocks()[b];
      dict.parameters[owned.parameter].blocks.push_back(
          {parameters[owned.parameter].boxes[owned.index], group->failures(b), owned.phase});
    }
  std::size_t count = 0;
  for_each_slot(training, options.derived, [&](const OwnedSlot&) { ++count; });
  dict.tensors.reserve(count);  // queued copies need their bytes to stay where they are
  HostView view(backend);
  for_each_slot(training, options.derived, [&](const OwnedSlot& slot) {
    dict.tensors.push_back(slot.tensor());
    if (options.contents) copy_slot(slot, view, dict.tensors.back());
  });
  backend.synchronize();
  sort_by_name(dict);
  return dict;
}

std::vector<StateSource> sources_of(const Training& training, const StateDictOptions& options) {
  std::vector<std::pair<std::string, StateSource>> named;
  for_each_slot(training, options.derived, [&](const OwnedSlot& slot) {
    named.emplace_back(slot.tensor().name(), slot.source());
  });
  std::ranges::sort(named, {}, [](const auto& one) -> const std::string& { return one.first; });
  std::vector<StateSource> sources;
  sources.reserve(named.size());
  for (const auto& [name, source] : named) sources.push_back(source);
  return sources;
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
