// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/shard_writer.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include "distributor/serialization.h"
#include "shampoo/checkpoint/tensor_shard.h"

namespace shampoo::checkpoint {

template <typename Visitor>
void for_each_field(Visitor&& visit, ShardFile& file) {
  visit("name", file.name);
  visit("bytes", file.bytes);
  visit("header_checksum", file.header_checksum);
  visit("checksums_checksum", file.checksums_checksum);
}

template <typename Visitor>
void for_each_field(Visitor&& visit, SavedUserTensor& tensor) {
  visit("name", tensor.name);
  visit("dtype", tensor.dtype);
  visit("shape", tensor.shape);
  visit("file", tensor.file);
  visit("rank", tensor.rank);
}

template <typename Visitor>
void for_each_field(Visitor&& visit, ShardReport& report) {
  visit("file", report.file);
  visit("failures", report.failures);
  visit("user_tensors", report.user_tensors);
  visit("rank_values", report.rank_values);
}

namespace {

/// Bytes written between two reports of progress.
constexpr std::size_t write_bytes = std::size_t{1} << 20;

/// A tensor of the file.
struct Entry {
  TensorDescription description;
  std::span<const std::byte> bytes;    ///< of a user tensor
  const StateTensor* state = nullptr;  ///< or what is read from `source`
  StateSource source = {};
};

SavedUserTensor saved_of(const SnapshotTensor& tensor) {
  SavedUserTensor saved{tensor.name, tensor.dtype, tensor.shape,
                        static_cast<std::uint32_t>(tensor.writer)};
  if (tensor.sharding == Sharding::per_rank) saved.rank = tensor.writer;
  return saved;
}

/// In their order in the file.
std::vector<Entry> entries_of(const Snapshot::Data& snapshot) {
  std::vector<Entry> entries;
  for (std::size_t t = 0; t < snapshot.state.tensors.size(); ++t) {
    const StateTensor& tensor = snapshot.state.tensors[t];
    entries.push_back({{key_of(tensor), dtype_of(tensor.type), shape_of(tensor)},
                       {},
                       &tensor,
                       snapshot.sources[t]});
  }
  for (const SnapshotTensor& tensor : snapshot.user_tensors)
    if (tensor.writer == snapshot.rank)
      entries.push_back(
          {{shard_of(saved_of(tensor)).key, tensor.dtype, tensor.shape}, tensor.bytes});
  std::ranges::stable_sort(entries, std::greater<>(),
                           [](const Entry& entry) { return bits_of(entry.description.dtype); });
  return entries;
}

/// Empty where all are 0.
template <typename Counter>
void drop_zeros(std::vector<Counter>& counters) {
  if (std::ranges::all_of(counters, [](Counter counter) { return counter == 0; })) counters.clear();
}

ShardReport report_of(const Snapshot::Data& snapshot) {
  ShardReport report;
  for (const ParameterState& parameter : snapshot.state.parameters)
    for (const BlockState& block : parameter.blocks) report.failures.push_back(block.failures);
  drop_zeros(report.failures);
  for (const SnapshotTensor& tensor : snapshot.user_tensors)
    if (tensor.sharding == Sharding::per_rank) report.user_tensors.push_back(saved_of(tensor));
  if (!snapshot.rank_values.empty()) report.rank_values = to_json(snapshot.rank_values);
  return report;
}

std::vector<TensorDescription> with_checksums(std::vector<TensorDescription> tensors) {
  tensors.push_back({std::string(checksums_name),
                     Dtype::u8,
                     {static_cast<std::int64_t>(tensors.size()), std::int64_t{8}}});
  return tensors;
}

/// Rows that many refer to by their index, each there once.
template <typename Row>
class Table {
 public:
  std::uint32_t index_of(const std::string& key, const Row& row) {
    const auto [known, is_new] = known_.emplace(key, static_cast<std::uint32_t>(rows.size()));
    if (is_new) rows.push_back(row);
    return known->second;
  }
  std::vector<Row> rows;

 private:
  std::map<std::string, std::uint32_t> known_;
};

struct Tables {
  Table<SavedSlot> slots;
  Table<SavedRecipe> recipes;
  Table<Rates> rates;
};

SavedParameter saved_parameter(const ParameterState& state, const SnapshotBlocks& blocks,
                               Tables& tables) {
  SavedParameter saved{.name = state.name,
                       .shape = state.shape,
                       .merged_shape = state.merged_shape,
                       .block_size = blocks.size,
                       .steps = state.steps,
                       .averaging_weight_sum = state.averaging_weight_sum,
                       .own_rates = state.own_rates,
                       .files = blocks.owners};
  SavedRecipe recipe = state.recipe;
  std::ranges::sort(recipe, {}, &RecipeField::name);
  std::string key;
  for (const RecipeField& field : recipe) key += field.name + "=" + field.value + "\n";
  saved.recipe = tables.recipes.index_of(key, recipe);
  const auto row_of = [&](Rates rates) { return tables.rates.index_of(serialize(rates), rates); };
  saved.rates = row_of(state.rates);
  if (state.base_rates) saved.base_rates = row_of(*state.base_rates);
  if (state.group_rates) saved.group_rates = row_of(*state.group_rates);
  for (const SavedSlot& slot : blocks.slots)
    saved.slots.push_back(tables.slots.index_of(
        slot.name + "\n" + std::to_string(static_cast<int>(slot.layout)) + " " +
            std::to_string(slot.dimension) + " " + std::string(name_of(slot.dtype)),
        slot));
  return saved;
}

/// Counters of blocks from the reports of their owners.
void collect_counters(Manifest& manifest, std::span<const ShardReport> reports) {
  std::vector<std::size_t> next(reports.size());
  for (SavedParameter& parameter : manifest.parameters) {
    for (const std::uint32_t file : parameter.files) {
      const ShardReport& report = reports[file];
      const std::size_t block = next[file]++;
      parameter.failures.push_back(report.failures.empty() ? 0 : report.failures.at(block));
    }
    drop_zeros(parameter.failures);
  }
}

}  // namespace

std::string shard_name(int rank, int ranks) {
  char name[64];
  std::snprintf(name, sizeof name, "shard-%05d-of-%05d.safetensors", rank, ranks);
  return name;
}

ShardWriter::ShardWriter(const std::filesystem::path& folder, const std::string& name,
                         std::vector<TensorDescription> tensors, const std::string& save,
                         std::int64_t step)
    : name_(name),
      tensors_(tensors.size()),
      writer_(folder / name, with_checksums(std::move(tensors)),
              {{"save", save}, {"step", std::to_string(step)}}) {}

ShardFile ShardWriter::finish() {
  std::vector<std::uint64_t> checksums = writer_.checksums();
  checksums.resize(std::min(checksums.size(), tensors_));
  writer_.write(std::as_bytes(std::span(checksums)));
  const WrittenFile written = writer_.finish();
  return {name_, written.bytes, written.header_checksum, written.checksums.at(tensors_)};
}

ShardReport write_shard(const Snapshot::Data& snapshot, const std::filesystem::path& folder,
                        const std::string& save, std::int64_t step,
                        const std::function<void(std::int64_t)>& wrote) {
  const std::vector<Entry> entries = entries_of(snapshot);
  std::vector<TensorDescription> descriptions;
  for (const Entry& entry : entries) descriptions.push_back(entry.description);
  ShardReport report = report_of(snapshot);
  ShardWriter writer(folder, shard_name(snapshot.rank, snapshot.ranks), std::move(descriptions),
                     save, step);
  const auto write = [&](std::span<const std::byte> part) {
    writer.write(part);
    wrote(static_cast<std::int64_t>(part.size()));
  };
  for (const Entry& entry : entries)
    if (entry.state)
      read_source(*entry.state, entry.source, write_bytes, write);
    else
      for (std::size_t done = 0; done < entry.bytes.size(); done += write_bytes)
        write(entry.bytes.subspan(done, std::min(write_bytes, entry.bytes.size() - done)));
  report.file = writer.finish();
  return report;
}

std::string serialize_report(const ShardReport& report) { return serialize(report); }

Manifest manifest_of(const Snapshot::Data& snapshot, std::span<const std::string> records) {
  Manifest manifest;
  manifest.library = snapshot.state.library;
  manifest.arithmetic = snapshot.state.arithmetic;
  manifest.ranks = snapshot.ranks;
  manifest.plan_hash = snapshot.plan_hash;
  manifest.progress = snapshot.state.progress;
  manifest.optimizers = snapshot.optimizers;
  manifest.user_values = snapshot.user_values;
  Tables tables;
  for (std::size_t p = 0; p < snapshot.state.parameters.size(); ++p)
    manifest.parameters.push_back(
        saved_parameter(snapshot.state.parameters[p], snapshot.blocks.at(p), tables));
  manifest.slots = std::move(tables.slots.rows);
  manifest.recipes = std::move(tables.recipes.rows);
  manifest.rates = std::move(tables.rates.rows);

  for (const SnapshotTensor& tensor : snapshot.user_tensors)
    if (tensor.sharding == Sharding::shared) manifest.user_tensors.push_back(saved_of(tensor));
  std::vector<ShardReport> reports;
  for (const std::string& record : records) {
    const ShardReport& report = reports.emplace_back(deserialize<ShardReport>(record));
    manifest.files.push_back(report.file);
    manifest.user_tensors.insert(manifest.user_tensors.end(), report.user_tensors.begin(),
                                 report.user_tensors.end());
    if (!report.rank_values.empty())
      manifest.rank_values.push_back(user_values_from_json(report.rank_values));
  }
  collect_counters(manifest, reports);
  std::ranges::sort(manifest.user_tensors, {}, [](const SavedUserTensor& tensor) {
    return std::pair<std::string_view, int>(tensor.name, tensor.rank.value_or(-1));
  });
  return manifest;
}

}  // namespace shampoo::checkpoint
