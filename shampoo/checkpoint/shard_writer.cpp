// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/shard_writer.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <stdexcept>

#include "distributor/serialization.h"
#include "shampoo/checkpoint/format/safetensors_writer.h"
#include "shampoo/checkpoint/tensor_shard.h"

namespace shampoo::checkpoint {

template <typename Visitor>
void for_each_field(Visitor&& visit, ShardFile& file) {
  visit("name", file.name);
  visit("bytes", file.bytes);
  visit("header_checksum", file.header_checksum);
}

template <typename Visitor>
void for_each_field(Visitor&& visit, SavedSlot& slot) {
  visit("name", slot.name);
  visit("layout", slot.layout);
  visit("dimension", slot.dimension);
  visit("dtype", slot.dtype);
}

template <typename Visitor>
void for_each_field(Visitor&& visit, SavedBlock& block) {
  visit("offset", block.state.box.offset);
  visit("extent", block.state.box.extent);
  visit("failures", block.state.failures);
  visit("phase", block.state.phase);
  visit("checksums", block.checksums);
}

template <typename Visitor>
void for_each_field(Visitor&& visit, SavedParameter& parameter) {
  visit("name", parameter.state.name);
  visit("slots", parameter.slots);
  visit("blocks", parameter.blocks);
}

template <typename Visitor>
void for_each_field(Visitor&& visit, SavedUserTensor& tensor) {
  visit("name", tensor.name);
  visit("dtype", tensor.dtype);
  visit("shape", tensor.shape);
  visit("checksum", tensor.checksum);
}

template <typename Visitor>
void for_each_field(Visitor&& visit, ShardReport& report) {
  visit("file", report.file);
  visit("parameters", report.parameters);
  visit("user_tensors", report.user_tensors);
}

namespace {

/// Bytes written between two reports of progress.
constexpr std::size_t write_bytes = std::size_t{1} << 20;

/// A tensor of the file.
struct Entry {
  TensorDescription description;
  std::span<const std::byte> bytes;    ///< unless `state` is set
  const StateTensor* state = nullptr;  ///< is read from `source`
  StateSource source = {};
  std::uint64_t* checksum = nullptr;  ///< in the report
};

/// What this rank reports of a file that it has not yet written, and what it writes.
class Shard {
 public:
  explicit Shard(const Snapshot::Data& snapshot) : snapshot_(snapshot) {
    for (const ParameterState& parameter : snapshot.state.parameters)
      if (!parameter.blocks.empty()) add_parameter(parameter);
    for (std::size_t t = 0; t < snapshot.state.tensors.size(); ++t) add_slot(t);
    for (const SnapshotTensor& tensor : snapshot.user_tensors)
      if (tensor.writer == snapshot.rank)
        report.user_tensors.push_back({tensor.name, tensor.dtype, tensor.shape, 0, 0});
    for (std::size_t t = 0; t < snapshot.state.tensors.size(); ++t) add_entry(t);
    auto reported = report.user_tensors.begin();
    for (const SnapshotTensor& tensor : snapshot.user_tensors)
      if (tensor.writer == snapshot.rank)
        entries.push_back({{shard_of(*reported).key, tensor.dtype, tensor.shape},
                           tensor.bytes,
                           nullptr,
                           {},
                           &reported++->checksum});
    std::ranges::stable_sort(entries, std::greater<>(),
                             [](const Entry& entry) { return bits_of(entry.description.dtype); });
  }

  ShardReport report;
  std::vector<Entry> entries;  ///< in their order in the file

 private:
  static SavedSlot slot_of(const StateTensor& tensor) {
    return {tensor.slot, tensor.layout, tensor.dimension, dtype_of(tensor.type)};
  }

  void add_parameter(const ParameterState& parameter) {
    Row& row = rows_[parameter.name];
    row.index = report.parameters.size();
    SavedParameter& saved = report.parameters.emplace_back();
    saved.state.name = parameter.name;
    for (const BlockState& block : parameter.blocks) {
      row.blocks.emplace(block.box, saved.blocks.size());
      saved.blocks.push_back({block, 0, {}});
    }
  }

  void add_slot(std::size_t index) {
    const StateTensor& tensor = snapshot_.state.tensors[index];
    SavedParameter& saved = report.parameters[rows_.at(tensor.parameter).index];
    if (std::ranges::find(saved.slots, slot_of(tensor)) != saved.slots.end()) return;
    saved.slots.push_back(slot_of(tensor));
    for (SavedBlock& block : saved.blocks) block.checksums.push_back(0);
  }

  void add_entry(std::size_t index) {
    const StateTensor& tensor = snapshot_.state.tensors[index];
    const Row& row = rows_.at(tensor.parameter);
    SavedParameter& saved = report.parameters[row.index];
    SavedBlock& block = saved.blocks[row.blocks.at(tensor.box)];
    const auto slot = std::ranges::find(saved.slots, slot_of(tensor)) - saved.slots.begin();
    Entry& entry = entries.emplace_back();
    entry.description = {key_of(tensor), dtype_of(tensor.type), shape_of(tensor)};
    entry.bytes = tensor.bytes;
    entry.checksum = &block.checksums.at(static_cast<std::size_t>(slot));
    if (snapshot_.sources.empty()) return;
    entry.state = &tensor;
    entry.source = snapshot_.sources[index];
  }

  /// A parameter in the report.
  struct Row {
    std::size_t index = 0;
    std::map<grouping::Box, std::size_t> blocks;
  };

  const Snapshot::Data& snapshot_;
  std::map<std::string_view, Row> rows_;
};

}  // namespace

std::string shard_name(int rank, int ranks) {
  char name[64];
  std::snprintf(name, sizeof name, "shard-%05d-of-%05d.safetensors", rank, ranks);
  return name;
}

std::map<std::string, std::string> metadata_of(const std::string& save, std::int64_t step) {
  return {{"save", save}, {"step", std::to_string(step)}};
}

ShardReport write_shard(const Snapshot::Data& snapshot, const std::filesystem::path& folder,
                        const std::map<std::string, std::string>& metadata,
                        const std::function<void(std::int64_t)>& wrote) {
  Shard shard(snapshot);
  std::vector<TensorDescription> descriptions;
  for (const Entry& entry : shard.entries) descriptions.push_back(entry.description);

  ShardFile& file = shard.report.file;
  file.name = shard_name(snapshot.rank, snapshot.ranks);
  SafetensorsWriter writer(folder / file.name, descriptions, metadata);
  const auto write = [&](std::span<const std::byte> part) {
    writer.write(part);
    wrote(static_cast<std::int64_t>(part.size()));
  };
  for (const Entry& entry : shard.entries)
    if (entry.state)
      read_source(*entry.state, entry.source, write_bytes, write);
    else
      for (std::size_t done = 0; done < entry.bytes.size(); done += write_bytes)
        write(entry.bytes.subspan(done, std::min(write_bytes, entry.bytes.size() - done)));
  const WrittenFile result = writer.finish();
  file.bytes = result.bytes;
  file.header_checksum = result.header_checksum;
  for (std::size_t e = 0; e < shard.entries.size(); ++e)
    *shard.entries[e].checksum = result.checksums[e];
  return std::move(shard.report);
}

std::string serialize_report(const ShardReport& report) { return serialize(report); }

Manifest manifest_of(const Snapshot::Data& snapshot, std::span<const std::string> reports) {
  Manifest manifest;
  manifest.library = snapshot.state.library;
  manifest.arithmetic = snapshot.state.arithmetic;
  manifest.ranks = snapshot.ranks;
  manifest.plan_hash = snapshot.plan_hash;
  manifest.progress = snapshot.state.progress;
  manifest.user_values = snapshot.user_values;
  std::map<std::string_view, SavedParameter*> by_name;
  manifest.parameters.reserve(snapshot.state.parameters.size());
  for (const ParameterState& parameter : snapshot.state.parameters) {
    SavedParameter& saved = manifest.parameters.emplace_back();
    saved.state = parameter;
    saved.state.blocks.clear();
    saved.merged_shape = snapshot.merged_shapes.at(parameter.name);
    std::ranges::sort(saved.state.recipe, {}, &RecipeField::name);
    by_name.emplace(parameter.name, &saved);
  }
  for (const std::string& record : reports) {
    auto report = deserialize<ShardReport>(record);
    const std::size_t file = manifest.files.size();
    manifest.files.push_back(std::move(report.file));
    for (SavedParameter& part : report.parameters) {
      SavedParameter& whole = *by_name.at(part.state.name);
      if (whole.blocks.empty()) whole.slots = part.slots;
      if (whole.slots != part.slots)
        throw std::logic_error("blocks of parameter '" + part.state.name + "' have other slots");
      for (SavedBlock& block : part.blocks) {
        block.file = file;
        whole.blocks.push_back(std::move(block));
      }
    }
    for (SavedUserTensor& tensor : report.user_tensors) {
      tensor.file = file;
      manifest.user_tensors.push_back(std::move(tensor));
    }
  }
  for (SavedParameter& parameter : manifest.parameters)
    std::ranges::sort(parameter.blocks, {},
                      [](const SavedBlock& block) { return block.state.box; });
  std::ranges::sort(manifest.user_tensors, {}, &SavedUserTensor::name);
  return manifest;
}

}  // namespace shampoo::checkpoint
