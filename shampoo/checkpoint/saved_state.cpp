// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/saved_state.h"

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "shampoo/checkpoint/read_state.h"
#include "shampoo/checkpoint/storage/checkpoint_folder.h"
#include "shampoo/checkpoint/storage/checkpoint_order.h"
#include "shampoo/checkpoint/storage/directory_operations.h"
#include "shampoo/state/packed_triangle.h"
#include "shampoo/state/state_names.h"

namespace shampoo::checkpoint {
namespace {

SavedTensor allocated(SavedTensorInfo info) {
  const auto bytes = static_cast<std::size_t>(bytes_of(info.dtype, info.shape).value());
  return {{std::move(info)}, std::shared_ptr<const std::byte[]>(new std::byte[bytes]), bytes};
}

/// Of a tensor that nobody else has yet.
std::byte* memory_of(const SavedTensor& tensor) {
  return const_cast<std::byte*>(tensor.data.get());
}

std::int64_t side_of(const SavedSlot& slot, const grouping::Box& box) {
  return box.extent.at(static_cast<std::size_t>(slot.dimension));
}

/// "0.1024"
std::optional<grouping::Shape> offset_from(std::string_view text) {
  grouping::Shape offset;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('.'), text.size());
    std::int64_t& at = offset.emplace_back();
    const auto [last, error] = std::from_chars(text.data(), text.data() + end, at);
    if (error != std::errc() || last != text.data() + end) return std::nullopt;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return offset;
}

}  // namespace

SavedStateReader::SavedStateReader(const std::filesystem::path& folder, Checksums checksums)
    : reader_(folder), checksums_(checksums) {
  const StateReader description(reader_, checksums);
  for (const SavedParameter& saved : manifest().parameters) {
    parameters_.emplace(saved.name, &saved);
    described_.push_back(description.describe(saved.name, saved));
  }
  std::ranges::sort(described_, {}, &ParameterState::name);
}

const SavedSlot* SavedStateReader::slot_of(const SavedParameter& parameter,
                                           std::string_view name) const {
  for (const std::uint32_t row : parameter.slots)
    if (manifest().slots[row].name == name) return &manifest().slots[row];
  return nullptr;
}

const SavedSlot* SavedStateReader::scales_of(const Place& place) const {
  const std::string name = scales_slot_of(place.slot.name);
  return name.empty() ? nullptr : slot_of(place.parameter, name);
}

SavedTensorInfo SavedStateReader::describe(const Place& place) const {
  const auto& [parameter, slot, block] = place;
  if (slot.layout == StateLayout::elements)
    return {parameter.name + "/" + slot.name, parameter.shape, slot.dtype};
  const grouping::Box box = parameter.grid().box(block);
  const SavedSlot* const scales = scales_of(place);
  const std::int64_t n = side_of(slot, box);
  return {state_name(parameter.name, slot.name, slot.layout, parameter.shape, box),
          slot.layout == StateLayout::vector ? std::vector{n} : std::vector{n, n},
          scales ? scales->dtype : slot.dtype};
}

std::vector<SavedTensorInfo> SavedStateReader::tensors() const {
  std::vector<SavedTensorInfo> all;
  for (const SavedParameter& parameter : manifest().parameters)
    for (const std::uint32_t row : parameter.slots) {
      const SavedSlot& slot = manifest().slots[row];
      const std::int64_t count =
          slot.layout == StateLayout::elements ? 1 : parameter.grid().count();
      for (std::int64_t block = 0; block < count; ++block)
        all.push_back(describe({parameter, slot, block}));
    }
  return all;
}

std::optional<SavedStateReader::Place> SavedStateReader::place_of(const SavedParameter& parameter,
                                                                  std::string_view rest) const {
  if (const SavedSlot* const slot = slot_of(parameter, rest);
      slot && slot->layout == StateLayout::elements)
    return Place{parameter, *slot};
  const std::size_t end = std::min(rest.rfind('/'), rest.size());
  const SavedSlot* const slot = slot_of(parameter, rest.substr(0, end));
  if (!slot || slot->layout == StateLayout::elements || end == rest.size()) return std::nullopt;
  const auto offset = offset_from(rest.substr(end + 1));
  if (!offset || offset->size() != parameter.merged_shape.size()) return std::nullopt;
  grouping::Box box{*offset, *offset};
  for (std::size_t d = 0; d < offset->size(); ++d) {
    if ((*offset)[d] < 0 || (*offset)[d] >= parameter.merged_shape[d]) return std::nullopt;
    box.extent[d] = std::min(parameter.block_size, parameter.merged_shape[d] - (*offset)[d]);
  }
  const auto block = parameter.grid().find(box);
  return block ? std::optional(Place{parameter, *slot, *block}) : std::nullopt;
}

std::optional<SavedTensor> SavedStateReader::find(std::string_view name) const {
  for (std::size_t end = name.find('/'); end != name.npos; end = name.find('/', end + 1)) {
    const auto parameter = parameters_.find(name.substr(0, end));
    if (parameter == parameters_.end()) continue;
    if (const auto place = place_of(*parameter->second, name.substr(end + 1)))
      return place->slot.layout == StateLayout::elements ? read_elements(*place)
                                                         : read_matrix(*place);
  }
  return std::nullopt;
}

SavedTensor SavedStateReader::read_elements(const Place& place) const {
  const SavedParameter& parameter = place.parameter;
  SavedTensor whole = allocated(describe(place));
  const grouping::Shape& shape = parameter.merged_shape;
  const grouping::Box box{grouping::Shape(shape.size(), 0), shape};
  SliceBuffer buffer{memory_of(whole), grouping::numel(shape)};
  const BlockGrid grid = parameter.grid();
  for (std::int64_t block = 0; block < grid.count(); ++block) {
    const StateTensor part = state_tensor(parameter, place.slot, grid.box(block));
    const std::size_t size = size_of(part.type);
    const auto take = [&](std::uint64_t offset, std::span<const std::byte> bytes) {
      const ElementRun run{static_cast<std::int64_t>(offset / size),
                           static_cast<std::int64_t>(bytes.size() / size), bytes.data()};
      copy_run({shape, part.box}, run, {shape, box}, buffer, size);
    };
    reader_.read_parts(shard_of(part, parameter.files.at(static_cast<std::size_t>(block))), take,
                       checksums_);
  }
  return whole;
}

std::vector<std::byte> SavedStateReader::read_block(const Place& place) const {
  const StateTensor part =
      state_tensor(place.parameter, place.slot, place.parameter.grid().box(place.block));
  std::vector<std::byte> bytes(static_cast<std::size_t>(part.count()) * size_of(part.type));
  const auto block = static_cast<std::size_t>(place.block);
  reader_.read(shard_of(part, place.parameter.files.at(block)), bytes, checksums_);
  return bytes;
}

SavedTensor SavedStateReader::read_matrix(const Place& place) const {
  SavedTensor matrix = allocated(describe(place));
  const std::vector<std::byte> saved = read_block(place);
  const Type type = type_of(place.slot.dtype).value();
  if (place.slot.layout != StateLayout::symmetric) {
    std::ranges::copy(saved, memory_of(matrix));
  } else if (const SavedSlot* const scales = scales_of(place)) {
    const std::vector<std::byte> d = read_block({place.parameter, *scales, place.block});
    unpack_scaled_square(saved.data(), type, d.data(), type_of(scales->dtype).value(),
                         matrix.shape.front(), memory_of(matrix));
  } else {
    unpack_square(saved.data(), type, matrix.shape.front(), memory_of(matrix));
  }
  return matrix;
}

SavedTensor SavedStateReader::read(const SavedUserTensor& tensor) const {
  SavedTensor whole = allocated({tensor.name, tensor.shape, tensor.dtype});
  reader_.read(shard_of(tensor), {memory_of(whole), whole.bytes}, checksums_);
  return whole;
}

}  // namespace shampoo::checkpoint

namespace shampoo {

void SavedTensor::require_elements(std::size_t size, bool floating, bool is_signed) const {
  using checkpoint::Dtype;
  const std::string_view text = checkpoint::name_of(dtype);
  const bool is_float = dtype == Dtype::f32 || dtype == Dtype::f64;
  const bool is_integer = text.starts_with("I");
  const bool fits = static_cast<std::size_t>(checkpoint::bits_of(dtype)) == 8 * size &&
                    (floating ? is_float : !is_float && is_integer == is_signed);
  if (!fits)
    throw std::invalid_argument("tensor '" + name + "': its elements are " + std::string(text) +
                                ", not of the type that was asked for");
}

SavedState::SavedState(std::unique_ptr<const checkpoint::SavedStateReader> reader)
    : reader_(std::move(reader)) {}
SavedState::~SavedState() = default;
SavedState::SavedState(SavedState&&) noexcept = default;
SavedState& SavedState::operator=(SavedState&&) noexcept = default;

std::int64_t SavedState::step() const { return reader_->manifest().step; }
int SavedState::ranks() const { return reader_->manifest().ranks; }
const Progress& SavedState::progress() const { return reader_->manifest().progress; }
std::map<std::string, Progress> SavedState::optimizers() const {
  std::map<std::string, Progress> all;
  for (const checkpoint::SavedOptimizer& optimizer : reader_->manifest().optimizers)
    all.emplace(optimizer.name, optimizer.progress);
  return all;
}
const std::vector<ParameterState>& SavedState::parameters() const { return reader_->parameters(); }
const std::map<std::string, UserValue>& SavedState::user_values() const {
  return reader_->manifest().user_values;
}

std::map<std::string, UserValue> SavedState::rank_values(int rank) const {
  if (rank < 0 || rank >= ranks())
    throw std::out_of_range("rank: must be in [0, " + std::to_string(ranks()) + "), got " +
                            std::to_string(rank));
  const auto& all = reader_->manifest().rank_values;
  if (all.empty()) return {};
  return all.at(static_cast<std::size_t>(rank));
}

std::vector<SavedTensorInfo> SavedState::tensors() const { return reader_->tensors(); }

std::vector<SavedTensorInfo> SavedState::user_tensors() const {
  std::vector<SavedTensorInfo> all;
  for (const checkpoint::SavedUserTensor& tensor : reader_->manifest().user_tensors)
    if (tensor.rank.value_or(0) == 0) all.push_back({tensor.name, tensor.shape, tensor.dtype});
  return all;
}

std::optional<SavedTensor> SavedState::find(std::string_view name) const {
  return reader_->find(name);
}

std::optional<SavedTensor> SavedState::find_user(std::string_view name, int rank) const {
  for (const checkpoint::SavedUserTensor& tensor : reader_->manifest().user_tensors)
    if (tensor.name == name && tensor.rank.value_or(rank) == rank) return reader_->read(tensor);
  return std::nullopt;
}

SavedState read_state_dict(const std::filesystem::path& path, bool checksums) {
  const auto how = checksums ? checkpoint::Checksums::compare : checkpoint::Checksums::skip;
  const auto read = [&](const std::filesystem::path& folder) {
    return SavedState(std::make_unique<const checkpoint::SavedStateReader>(folder, how));
  };
  if (std::filesystem::exists(path / checkpoint::manifest_name)) return read(path);
  for (int listings = 1;; ++listings) {
    const auto latest = latest_checkpoint(path);
    if (!latest) throw CheckpointError(path.string() + ": there is no checkpoint");
    try {
      return read(*latest);
    } catch (const std::system_error&) {  // a trainer may have pruned it meanwhile
      if (checkpoint::is_there(*latest) || listings == checkpoint::most_listings) throw;
    }
  }
}

}  // namespace shampoo
