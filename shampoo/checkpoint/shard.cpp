// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/shard.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "shampoo/checkpoint/verified_file.h"
#include "shampoo/state/state_serialization.h"

namespace shampoo::checkpoint {
namespace {

using grouping::Shape;

ShardTensor of_state(const StateTensor& tensor) {
  const std::string prefix(state_prefix);
  ShardTensor shard;
  shard.key = prefix + tensor.name();
  shard.dtype = dtype_of(tensor.type);
  shard.bytes = tensor.bytes;
  if (tensor.layout != StateLayout::elements) {
    shard.name = shard.key;
    shard.shape = {tensor.count()};
    shard.box = {{0}, shard.shape};
  } else {
    shard.name = prefix + tensor.parameter + "/" + tensor.slot;
    shard.shape = tensor.shape;
    shard.box = tensor.box;
  }
  return shard;
}

/// Bytes that the state does not have, where they lie.
void borrow(const StateTensor& tensor, const StateSource& source, ShardTensor& shard) {
  if (tensor.layout == StateLayout::elements)
    shard.bytes = {source.data, static_cast<std::size_t>(tensor.count()) * size_of(tensor.type)};
  else
    shard.source = source;
}

ShardTensor of_extra(const SnapshotExtra& extra) {
  const std::string name = std::string(extra_prefix) + extra.name;
  return {name,        name, extra.dtype, extra.shape, {Shape(extra.shape.size(), 0), extra.shape},
          extra.bytes, {}};
}

/// Bytes that a progress is told of together.
constexpr std::size_t at_once = std::size_t{1} << 20;

/// Packs some rows after the other into `packed`, and calls write(bytes).
template <typename Write>
void write_rows(const StateSource& source, std::vector<std::byte>& packed, const Write& write) {
  constexpr std::int64_t fewest = 16;  // that are packed well together
  const std::int64_t rows = source.storage.side;
  const auto row_bytes = std::max<std::size_t>(
      packed_bytes(source.storage, std::max<std::int64_t>(rows - 1, 0), rows), 1);
  const auto fitting = static_cast<std::int64_t>(at_once / row_bytes);
  const std::int64_t step = std::max(fitting / fewest * fewest, fewest);
  for (std::int64_t first = 0; first < rows; first += step) {
    const std::int64_t last = std::min(first + step, rows);
    packed.resize(packed_bytes(source.storage, first, last));
    pack_rows(source.data, source.storage, first, last, packed.data());
    write(packed);
  }
}

}  // namespace

std::string shard_name(int rank, int ranks) {
  char name[64];
  std::snprintf(name, sizeof name, "shard-%05d-of-%05d.safetensors", rank, ranks);
  return name;
}

std::vector<ShardTensor> shard_tensors(const StateDict& state, std::span<const StateSource> sources,
                                       std::span<const SnapshotExtra> extras, int rank) {
  std::vector<ShardTensor> tensors;
  for (const StateTensor& tensor : state.tensors) tensors.push_back(of_state(tensor));
  for (std::size_t t = 0; t < sources.size(); ++t) borrow(state.tensors[t], sources[t], tensors[t]);
  for (const SnapshotExtra& extra : extras)
    if (extra.writer == rank) tensors.push_back(of_extra(extra));
  std::ranges::stable_sort(tensors, std::greater<>(),
                           [](const ShardTensor& tensor) { return bits_of(tensor.dtype); });
  return tensors;
}

WrittenFile write_shard(const Snapshot::Data& snapshot, const std::filesystem::path& folder,
                        const SavePlace& place, std::atomic<std::int64_t>& written) {
  const std::vector<ShardTensor> tensors =
      shard_tensors(snapshot.state, snapshot.sources, snapshot.extras, snapshot.rank);
  std::vector<TensorDescription> descriptions;
  for (const ShardTensor& tensor : tensors)
    descriptions.push_back({tensor.key, tensor.dtype, tensor.box.extent});

  SafetensorsWriter writer(folder / shard_name(snapshot.rank, snapshot.ranks), descriptions,
                           metadata_of(place.save, place.step));
  std::vector<std::byte> rows;
  const auto write = [&](std::span<const std::byte> part) {
    writer.write(part);
    written += static_cast<std::int64_t>(part.size());
  };
  for (const ShardTensor& tensor : tensors)
    if (tensor.source)
      write_rows(*tensor.source, rows, write);
    else
      for (std::size_t done = 0; done < tensor.bytes.size(); done += at_once)
        write(tensor.bytes.subspan(done, std::min(at_once, tensor.bytes.size() - done)));
  return writer.finish();
}

std::string words_of_report(const WrittenFile& file, const StateDict& state) {
  std::vector<std::uint64_t> numbers{file.bytes, file.header_checksum, file.checksums.size()};
  numbers.insert(numbers.end(), file.checksums.begin(), file.checksums.end());
  StateDict here;  // what the other ranks do not know
  for (const ParameterState& parameter : state.parameters)
    if (!parameter.blocks.empty())
      here.parameters.push_back({.name = parameter.name, .blocks = parameter.blocks});
  for (const StateTensor& t : state.tensors)
    here.tensors.push_back({t.parameter, t.slot, t.shape, t.box, t.layout, t.dimension, t.type});
  std::string words(numbers.size() * sizeof(std::uint64_t), '\0');
  std::memcpy(words.data(), numbers.data(), words.size());
  return words + serialize_description(here);
}

ShardReport report_from(const std::string& words) {
  std::size_t at = 0;
  const auto next = [&] {
    std::uint64_t number = 0;
    if (words.size() - at < sizeof(number))
      throw std::logic_error("the report of another rank ends early");
    std::memcpy(&number, words.data() + at, sizeof(number));
    at += sizeof(number);
    return number;
  };
  ShardReport report;
  report.file.bytes = next();
  report.file.header_checksum = next();
  const std::uint64_t count = next();
  for (std::uint64_t i = 0; i < count; ++i) report.file.checksums.push_back(next());
  report.state = deserialize_description(std::string_view(words).substr(at));
  return report;
}

}  // namespace shampoo::checkpoint
