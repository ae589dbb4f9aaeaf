// SPDX-License-Identifier: Apache-2.0
#include "shampoo/state/export_state.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "distributor/system/library_version.h"
#include "kernels/buffer.h"
#include "shampoo/state/packed_triangle.h"

namespace shampoo {

namespace {

ParameterState description_of(const RegisteredParameter& registered) {
  std::vector<std::string> own_rates;
  for (const OwnRate& own : registered.group->own_rates())
    if (own.parameter == registered.index) own_rates.emplace_back(own.rate);
  std::optional<Rates> group_rates;
  if (!own_rates.empty()) group_rates = registered.group->rates;
  return {.name = registered.parameter().name,
          .shape = registered.parameter().shape,
          .merged_shape = registered.merged,
          .steps = registered.steps,
          .averaging_weight_sum = registered.averaging_weight_sum,
          .recipe = fields_of(registered.group->recipe()),
          .rates = registered.group->rates_of(registered.index),
          .base_rates = registered.group->schedules.empty()
                            ? std::nullopt
                            : std::optional(registered.group->base_rates),
          .own_rates = std::move(own_rates),
          .group_rates = group_rates};
}

/// Downloads several arrays per synchronization through pinned memory.
class DeviceToHostStaging {
 public:
  using Use = std::function<void(const std::byte*)>;

  explicit DeviceToHostStaging(kernels::Backend& backend) : backend_(backend), settled_(backend) {}

  /// Calls use(array) with the host copy, at the latest in the next finish().
  void download(const std::byte* array, std::size_t bytes, Use use) {
    if (backend_.memory_kind() == MemoryKind::host) return use(array);
    if (array != last_) {  // slots may share an array
      if (used_ + bytes > capacity_) finish();
      if (bytes > capacity_) grow(std::max(bytes, usual_bytes));
      backend_.download(at(used_), array, bytes);
      last_ = array;
      last_offset_ = used_;
      used_ += (bytes + alignment - 1) / alignment * alignment;
    }
    uses_.emplace_back(last_offset_, std::move(use));
  }

  void finish() {
    backend_.synchronize();
    for (const auto& [where, use] : uses_) use(at(where));
    uses_.clear();
    used_ = 0;
    last_ = nullptr;
  }

 private:
  static constexpr std::size_t usual_bytes = std::size_t{64} << 20;
  static constexpr std::size_t alignment = 64;

  void grow(std::size_t bytes) {
    memory_ = {};
    memory_ = kernels::HostBuffer(backend_, bytes);
    capacity_ = bytes;
  }
  std::byte* at(std::size_t offset) const {
    return static_cast<std::byte*>(memory_.data()) + offset;
  }

  kernels::Backend& backend_;
  kernels::HostBuffer memory_;
  std::size_t capacity_ = 0, used_ = 0;
  const std::byte* last_ = nullptr;  ///< the array that was downloaded last
  std::size_t last_offset_ = 0;
  std::vector<std::pair<std::size_t, Use>> uses_;
  kernels::Settled settled_;
};

/// A slot of a block owned by this rank.
struct OwnedSlot {
  const GroupStep& group;
  int block;
  const RegisteredParameter& registered;
  const grouping::Box& box;
  const Slot& slot;

  StateTensor tensor() const {
    return {.parameter = registered.parameter().name,
            .slot = slot.name,
            .shape = registered.merged,
            .box = box,
            .layout = slot.layout,
            .dimension = slot.dimension,
            .type = slot.type};
  }

  StateSource source() const {
    return {static_cast<const std::byte*>(group.state().data(block, slot)),
            storage_of(slot, box.extent)};
  }
};

template <typename Visit>
void for_each_slot(const Engine& engine, bool derived, const Visit& visit) {
  for (const auto& group : engine.group_steps())
    for (std::size_t b = 0; b < group->blocks().size(); ++b) {
      const OwnedBlock& owned = group->blocks()[b];
      const RegisteredParameter& registered = engine.parameters()[owned.parameter];
      const auto block = static_cast<int>(b);
      for (const Slot& slot : group->state().slots(block))
        if (derived || !slot.derived)
          visit(OwnedSlot{*group, block, registered, registered.boxes[owned.index], slot});
    }
}

/// Queues copies into the tensor, which must not move until they are done.
void copy_slot(const OwnedSlot& from, kernels::Backend& backend, DeviceToHostStaging& staging,
               StateTensor& tensor) {
  const std::size_t size = size_of(tensor.type);
  const StateSource source = from.source();
  tensor.bytes.resize(static_cast<std::size_t>(tensor.count()) * size);
  if (tensor.layout == StateLayout::elements)
    return backend.download(tensor.bytes.data(), source.data, tensor.bytes.size());
  staging.download(source.data, array_bytes(source.storage),
                   [&tensor, storage = source.storage](const std::byte* array) {
                     pack(array, storage, tensor.bytes.data());
                   });
}

}  // namespace

StateDict export_state(kernels::Backend& backend, const Engine& engine,
                       const StateDictOptions& options) {
  const std::span<const RegisteredParameter> parameters = engine.parameters();
  StateDict dict{.library = std::string(library_version()), .arithmetic = backend.arithmetic()};
  std::vector<std::size_t> places;  // by row; what is frozen has no state
  for (const RegisteredParameter& registered : parameters) {
    places.push_back(dict.parameters.size());
    if (!registered.is_frozen()) dict.parameters.push_back(description_of(registered));
  }

  for (const auto& group : engine.group_steps())
    for (std::size_t b = 0; b < group->blocks().size(); ++b) {
      const OwnedBlock& owned = group->blocks()[b];
      dict.parameters[places[owned.parameter]].blocks.push_back(
          {parameters[owned.parameter].boxes[owned.index], group->failures(b)});
    }
  std::size_t count = 0;
  for_each_slot(engine, options.derived, [&](const OwnedSlot&) { ++count; });
  dict.tensors.reserve(count);  // reallocation would move the targets of queued copies
  backend.synchronize();
  DeviceToHostStaging staging(backend);
  for_each_slot(engine, options.derived, [&](const OwnedSlot& slot) {
    dict.tensors.push_back(slot.tensor());
    if (options.contents) copy_slot(slot, backend, staging, dict.tensors.back());
  });
  staging.finish();
  sort_by_name(dict);
  return dict;
}

std::vector<StateSource> sources_of(const Engine& engine, const StateDictOptions& options) {
  std::vector<std::pair<std::string, StateSource>> named;
  for_each_slot(engine, options.derived, [&](const OwnedSlot& slot) {
    named.emplace_back(slot.tensor().name(), slot.source());
  });
  std::ranges::sort(named, {}, [](const auto& entry) -> const std::string& { return entry.first; });
  std::vector<StateSource> sources;
  sources.reserve(named.size());
  for (const auto& [name, source] : named) sources.push_back(source);
  return sources;
}

void read_source(const StateTensor& tensor, const StateSource& source, std::size_t part_bytes,
                 const std::function<void(std::span<const std::byte>)>& take) {
  if (tensor.layout == StateLayout::elements) {
    const std::span bytes(source.data,
                          static_cast<std::size_t>(tensor.count()) * size_of(tensor.type));
    for (std::size_t done = 0; done < bytes.size(); done += part_bytes)
      take(bytes.subspan(done, std::min(part_bytes, bytes.size() - done)));
    return;
  }
  constexpr std::int64_t fewest = 16;  // rows per portion for efficient packing
  const SlotStorage& storage = source.storage;
  const std::int64_t rows = storage.side;
  if (rows == 0) return;
  const std::size_t row_bytes = packed_bytes(storage, rows - 1, rows);
  const auto fitting = static_cast<std::int64_t>(part_bytes / row_bytes);
  const std::int64_t step = std::max(fitting / fewest * fewest, fewest);
  std::vector<std::byte> packed;
  for (std::int64_t first = 0; first < rows; first += step) {
    const std::int64_t last = std::min(first + step, rows);
    packed.resize(packed_bytes(storage, first, last));
    pack_rows(source.data, storage, first, last, packed.data());
    take(packed);
  }
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
