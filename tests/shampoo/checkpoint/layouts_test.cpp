// SPDX-License-Identifier: Apache-2.0
// Slots of every layout, from the state of two ranks to files and back.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>

#include "shampoo/checkpoint/read_state.h"
#include "shampoo/checkpoint/shard_writer.h"
#include "shampoo/checkpoint/storage/checkpoint_folder.h"
#include "shampoo/checkpoint/storage/pending_checkpoint.h"
#include "tests/shampoo/checkpoint/sample.h"

namespace shampoo::checkpoint::test {
namespace {

const std::vector<std::int64_t> global_shape{5, 3};

/// The part of a rank: rows 0 to 2 on rank 0, rows 3 and 4 on rank 1.
grouping::Box box_of(int rank) {
  return rank == 0 ? grouping::Box{{0, 0}, {3, 3}} : grouping::Box{{3, 0}, {2, 3}};
}

/// No two bytes of a rank are alike in a row.
std::vector<std::byte> numbered(std::size_t count, int seed) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i)
    bytes[i] = static_cast<std::byte>(i * 37 + static_cast<std::size_t>(seed));
  return bytes;
}

/// Of one parameter, "w".
StateDict state_of(int rank) {
  StateDict state;
  state.parameters = {{.name = "w",
                       .shape = global_shape,
                       .merged_shape = global_shape,
                       .blocks = {{box_of(rank), rank}}}};
  const auto add = [&](const char* slot, StateLayout layout, int dimension, Type type) {
    StateTensor& tensor = state.tensors.emplace_back(StateTensor{.parameter = "w",
                                                                 .slot = slot,
                                                                 .shape = global_shape,
                                                                 .box = box_of(rank),
                                                                 .layout = layout,
                                                                 .dimension = dimension,
                                                                 .type = type});
    tensor.bytes = numbered(static_cast<std::size_t>(tensor.count()) * size_of(type),
                            static_cast<int>(state.tensors.size()) + 100 * rank);
  };
  add("basis", StateLayout::square, 0, Type::float32);
  add("moment", StateLayout::elements, 0, Type::bfloat16);
  add("spectrum", StateLayout::vector, 1, Type::float64);
  add("statistics", StateLayout::symmetric, 1, Type::float64);
  return state;
}

class Layouts : public testing::Test {
 protected:
  std::filesystem::path save() {
    PendingCheckpoint pending(root_.path(), 1, new_save_id());
    pending.create();
    std::vector<std::string> reports;
    for (const int rank : {0, 1}) {
      const StateDict contents = state_of(rank);
      auto data = std::make_unique<Snapshot::Data>();
      data->state = contents;
      data->rank = rank;
      data->ranks = 2;
      for (StateTensor& tensor : data->state.tensors) tensor.bytes.clear();
      for (const StateTensor& tensor : contents.tensors)
        data->sources.push_back({.data = tensor.bytes.data(),
                                 .storage = {.layout = tensor.layout,
                                             .side = tensor.box.extent[tensor.dimension],
                                             .type = tensor.type,
                                             .array = kernels::FactorLayout::packed}});
      std::int64_t written = 0;
      reports.push_back(
          serialize_report(write_shard(*data, pending.temporary(), pending.save(), 1,
                                       [&](std::int64_t bytes) { written += bytes; })));
      EXPECT_EQ(written, Snapshot(std::move(data)).bytes());
    }
    Snapshot::Data first;
    first.state = state_of(0);
    first.ranks = 2;
    SnapshotBlocks& blocks = first.blocks.emplace_back(SnapshotBlocks{3, {}, {0, 1}});
    for (const StateTensor& tensor : first.state.tensors)
      blocks.slots.push_back({tensor.slot, tensor.layout, tensor.dimension, dtype_of(tensor.type)});
    Manifest manifest = manifest_of(first, reports);
    manifest.save = pending.save();
    manifest.step = 1;
    pending.commit(manifest);
    return pending.folder();
  }

  TemporaryFolder root_;
};

TEST_F(Layouts, ComeBackAsTheyWereSaved) {
  const auto folder = save();
  const Reader reader(folder);
  const StateReader state(reader, Checksums::compare);
  for (const int rank : {0, 1}) {
    StateDict own = state_of(rank);
    const StateDict saved = own;
    for (StateTensor& tensor : own.tensors) tensor.bytes.clear();
    const StateDict read = state.read(own, "");
    ASSERT_EQ(read.parameters.size(), 1U);
    EXPECT_EQ(read.parameters[0].blocks, saved.parameters[0].blocks);
    for (const StateTensor& tensor : saved.tensors) {
      const StateTensor* const found = read.find(tensor.name());
      ASSERT_NE(found, nullptr) << tensor.name();
      EXPECT_EQ(*found, tensor) << tensor.name();
    }
  }
}

TEST_F(Layouts, OfOtherBlocksAreNotReadButTold) {
  const auto folder = save();
  const Reader reader(folder);
  const StateReader state(reader, Checksums::compare);
  StateDict own;
  for (StateTensor tensor : state_of(0).tensors) {
    tensor.box = {{0, 0}, global_shape};
    tensor.bytes.clear();
    own.tensors.push_back(tensor);
  }
  const StateDict read = state.read(own, "");

  const StateDict first = state_of(0), second = state_of(1);
  for (const StateTensor& tensor : read.tensors) {
    if (tensor.layout != StateLayout::elements) {
      EXPECT_EQ(tensor.box, box_of(0)) << "of the first block that overlaps";
      EXPECT_EQ(std::ranges::count(tensor.bytes, std::byte{}),
                static_cast<std::ptrdiff_t>(tensor.bytes.size()));
      continue;
    }
    std::vector<std::byte> both = first.tensors[1].bytes;
    both.insert(both.end(), second.tensors[1].bytes.begin(), second.tensors[1].bytes.end());
    EXPECT_EQ(tensor.bytes, both);
  }
  EXPECT_EQ(read.tensors.size(), 4U);
}

TEST_F(Layouts, HaveTheirShapesInTheFiles) {
  const Reader reader(save());
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const std::size_t file : {0, 1})
    reader.for_each_tensor(file,
                           [&](const TensorShard& shard) { shapes[shard.key] = shard.shape; });

  EXPECT_EQ(shapes.at("optimizer/w/basis/3.0"), (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(shapes.at("optimizer/w/moment/3.0"), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(shapes.at("optimizer/w/spectrum/3.0"), (std::vector<std::int64_t>{3}));
  EXPECT_EQ(shapes.at("optimizer/w/statistics/3.0"), (std::vector<std::int64_t>{6}));
}

}  // namespace
}  // namespace shampoo::checkpoint::test
