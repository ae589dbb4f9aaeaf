// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/shard.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "shampoo/state_words.h"

namespace shampoo::checkpoint {
namespace {

using grouping::Shape;

ShardTensor of_state(const StateTensor& tensor) {
  const std::string prefix(state_prefix);
  ShardTensor shard;
  shard.key = prefix + tensor.name();
  shard.dtype = dtype_of(tensor.type);
  shard.bytes = tensor.bytes;
  if (tensor.layout == StateLayout::lower_triangle) {
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

ShardTensor of_extra(const SnapshotExtra& extra) {
  const std::string name = std::string(extra_prefix) + extra.name;
  return {name,
          name,
          dtype_of(extra.type),
          extra.shape,
          {Shape(extra.shape.size(), 0), extra.shape},
          extra.bytes};
}

}  // namespace

std::string shard_name(int rank, int ranks) {
  char name[64];
  std::snprintf(name, sizeof name, "shard-%05d-of-%05d.safetensors", rank, ranks);
  return name;
}

std::vector<ShardTensor> shard_tensors(const StateDict& state,
                                       std::span<const SnapshotExtra> extras, int rank) {
  std::vector<ShardTensor> tensors;
  for (const StateTensor& tensor : state.tensors) tensors.push_back(of_state(tensor));
  for (const SnapshotExtra& extra : extras)
    if (extra.writer == rank) tensors.push_back(of_extra(extra));
  std::ranges::stable_sort(tensors, std::greater<>(),
                           [](const ShardTensor& tensor) { return bits_of(tensor.dtype); });
  return tensors;
}

WrittenFile write_shard(const Snapshot::Data& snapshot, const std::filesystem::path& folder,
                        const std::string& save, std::atomic<std::int64_t>& written) {
  constexpr std::size_t at_once = std::size_t{8} << 20;
  const std::vector<ShardTensor> tensors =
      shard_tensors(snapshot.state, snapshot.extras, snapshot.rank);
  std::vector<TensorDescription> descriptions;
  for (const ShardTensor& tensor : tensors)
    descriptions.push_back({tensor.key, tensor.dtype, tensor.box.extent});

  SafetensorsWriter writer(folder / shard_name(snapshot.rank, snapshot.ranks), descriptions,
                           {{"save", save}});
  for (const ShardTensor& tensor : tensors)
    for (std::size_t done = 0; done < tensor.bytes.size(); done += at_once) {
      const auto part = tensor.bytes.subspan(done, std::min(at_once, tensor.bytes.size() - done));
      writer.write(part);
      written += static_cast<std::int64_t>(part.size());
    }
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
  return words + shampoo::words_of(here);
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
  report.state = from_words(words.substr(at));
  return report;
}

}  // namespace shampoo::checkpoint
