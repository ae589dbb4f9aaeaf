// SPDX-License-Identifier: Apache-2.0
// The metadata of a checkpoint of 10^11 parameters on 512 ranks: from the plan to files without
// tensor data, and back.
#include <gtest/gtest.h>

#include <chrono>

#include "grouping/hash.h"
#include "grouping/plan.h"
#include "shampoo/checkpoint/reader.h"
#include "shampoo/checkpoint/shard_writer.h"
#include "shampoo/checkpoint/storage/checkpoint_folder.h"
#include "shampoo/checkpoint/tensor_shard.h"
#include "tests/shampoo/checkpoint/sample.h"
#include "tests/support/allocations.h"
#include "tests/support/process_memory.h"

namespace shampoo::checkpoint::test {
namespace {

constexpr int ranks = 512;
constexpr std::int64_t block_size = 256;

/// A decoder-only transformer: 116 layers of width 8192, hidden width 28672, 8 of 64 heads for keys
/// and values.
std::vector<grouping::PlannedParameter> parameters() {
  std::vector<grouping::PlannedParameter> all;
  const auto add = [&](const std::string& name, const grouping::Shape& shape) {
    grouping::PlannedParameter& parameter = all.emplace_back();
    parameter.name = name;
    parameter.shape = shape;
    for (grouping::Box& box : grouping::cut(shape, block_size)) {
      const std::int64_t elements = grouping::numel(box.extent);
      parameter.blocks.push_back({std::move(box), {elements, elements, 20 * elements}});
    }
  };
  for (const char* name : {"embedding", "head"}) add(name, {128'256, 8192});
  for (int layer = 0; layer < 116; ++layer) {
    const std::string prefix = "layers." + std::to_string(layer) + ".";
    for (const char* name : {"attention.q", "attention.o"}) add(prefix + name, {8192, 8192});
    for (const char* name : {"attention.k", "attention.v"}) add(prefix + name, {1024, 8192});
    for (const char* name : {"mlp.gate", "mlp.up"}) add(prefix + name, {28'672, 8192});
    add(prefix + "mlp.down", {8192, 28'672});
    for (const char* name : {"norm1", "norm2"}) add(prefix + name, {8192});
  }
  return all;
}

std::vector<SavedSlot> slots_of(std::size_t sides) {
  std::vector<SavedSlot> slots;
  for (int k = 0; k < static_cast<int>(sides); ++k)
    for (const char* name : {"factor/", "root/"})
      slots.push_back({name + std::to_string(k), StateLayout::symmetric, k, Dtype::f32});
  for (const char* name : {"filtered_gradient", "grafting"})
    slots.push_back({name, StateLayout::elements, 0, Dtype::f32});
  return slots;
}

class ACheckpointOf100BillionParameters : public testing::Test {
 protected:
  /// Of rank 0, without contents.
  static Snapshot::Data planned() {
    const grouping::Plan plan = grouping::plan({{"recipe", parameters()}}, ranks);
    Snapshot::Data data;
    data.ranks = ranks;
    data.state.library = "0";
    const auto& group = plan.groups.at(0).parameters;
    for (const grouping::PlannedParameter& parameter : group) {
      data.state.parameters.push_back({.name = parameter.name,
                                       .shape = parameter.shape,
                                       .merged_shape = parameter.shape,
                                       .recipe = fields_of({})});
      data.blocks.push_back({block_size, slots_of(parameter.shape.size()), {}});
      data.blocks.back().owners.resize(parameter.blocks.size());
      elements_ += grouping::numel(parameter.shape);
    }
    for (const grouping::Block& block : plan.blocks.at(0))
      data.blocks[plan.virtual_groups[0].members[block.member].parameter].owners[block.index] =
          static_cast<std::uint32_t>(block.owner);
    return data;
  }

  /// The header of a rank's file; its data are a hole.
  static ShardFile write_header(const std::filesystem::path& folder, const Manifest& manifest,
                                std::uint32_t rank) {
    std::vector<TensorDescription> tensors;
    std::uint64_t bytes = 0;
    for (const SavedParameter& parameter : manifest.parameters) {
      const BlockGrid grid = parameter.grid();
      for (std::size_t b = 0; b < parameter.files.size(); ++b) {
        if (parameter.files[b] != rank) continue;
        for (const std::uint32_t slot : parameter.slots) {
          const TensorShard shard = shard_of(
              state_tensor(parameter, manifest.slots[slot], grid.box(static_cast<std::int64_t>(b))),
              rank);
          tensors.push_back({shard.key, shard.dtype, shard.shape});
          bytes += bytes_of(shard.dtype, shard.shape).value();
        }
      }
    }
    const std::string name = shard_name(static_cast<int>(rank), ranks);
    const std::size_t count = tensors.size();
    { const ShardWriter writer(folder, name, std::move(tensors), manifest.save, manifest.step); }
    const std::uint64_t header = std::filesystem::file_size(folder / name);
    std::filesystem::resize_file(folder / name, header + bytes + 8 * count);
    const SafetensorsFile file(folder / name);
    return {name, file.bytes(), file.header_checksum(),
            grouping::hash(std::string(8 * count, '\0'))};
  }

  static inline std::int64_t elements_ = 0;
  TemporaryFolder root_;
};

TEST_F(ACheckpointOf100BillionParameters, IsWrittenAndReadWithLittleMemory) {
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  Manifest manifest;
  {
    Snapshot::Data data = planned();
    std::vector<std::vector<int>> failures(ranks);
    for (const SnapshotBlocks& blocks : data.blocks)
      for (const std::uint32_t owner : blocks.owners)
        failures[owner].push_back(static_cast<int>(failures[owner].size() % 10));
    std::vector<std::string> reports;
    for (int rank = 0; rank < ranks; ++rank)
      reports.push_back(serialize_report(
          {{shard_name(rank, ranks), 1, 1, 1}, failures[static_cast<std::size_t>(rank)], {}, {}}));
    std::printf("planned in %.1f s\n", seconds());
    manifest = manifest_of(data, reports);
  }
  EXPECT_GT(elements_, 100'000'000'000);
  manifest.save = new_save_id();
  for (const std::uint32_t rank : {0U, 1U, 511U})
    manifest.files[rank] = write_header(root_.path(), manifest, rank);
  const std::string text = to_json(manifest);
  std::printf("%.1f MB of manifest in %.1f s\n", static_cast<double>(text.size()) / 1e6, seconds());
  EXPECT_LT(text.size(), 20'000'000U);
  put(root_.path() / manifest_name, text);

  const Reader reader(root_.path());

  EXPECT_EQ(reader.manifest(), manifest);
  std::size_t tensors = 0;
  for (const std::size_t rank : {0, 1, 511}) tensors += reader.shard(rank)->tensors();
  EXPECT_GT(tensors, 3U * 6 * 2500);
  // Of no other rank is anything there.
  EXPECT_THROW(reader.shard(2), std::system_error);
  std::printf("read after %.1f s, %zu tensors, peak of memory %.0f MiB\n", seconds(), tensors,
              static_cast<double>(shampoo::test::memory_of_process("VmHWM")) / (1 << 20));
  // A sanitizer needs more.
  if (!shampoo::test::AllocationCounter::sees_everything()) return;
  EXPECT_LT(shampoo::test::memory_of_process("VmHWM"), std::int64_t{1} << 30);
}

}  // namespace
}  // namespace shampoo::checkpoint::test
