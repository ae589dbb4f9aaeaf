// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>

#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/elementwise/strided_span.h"
#include "tests/kernels/numbers.h"
#include "tests/support/device/emulated_device.h"

// What is special about elements on devices: how many launches there are, and where elements of a
// tile lie. Values are tested together with those of the other backends.

namespace shampoo::kernels::cuda {
namespace {

using test::EmulatedDevice;

class Launches : public ::testing::Test {
 protected:
  /// Kernels that a call queues for so many tiles and blocks. None of them ever runs.
  template <typename Call>
  std::int64_t of(std::int64_t tiles, std::int64_t blocks, const Call& call) {
    auto* const device = new EmulatedDevice;
    DeviceBackend backend{std::unique_ptr<Device>(device)};
    TileTable elements;
    elements.tile_count = tiles;
    elements.block_count = blocks;
    const std::int64_t before = device->launches();
    call(backend, PassContext{elements, nullptr, nullptr, nullptr, nullptr});
    return device->launches() - before;
  }
};

TEST_F(Launches, DoNotGrowWithTilesAndBlocks) {
  double norms = 0;
  for (const std::int64_t blocks : {1, 28, 1000, 300000}) {
    const std::int64_t tiles = 7 * blocks;
    EXPECT_EQ(of(tiles, blocks,
                 [](kernels::Backend& b, const PassContext& p) {
                   b.scan(p.elements, nullptr, true, nullptr);
                 }),
              2);
    EXPECT_EQ(
        of(tiles, blocks, [&](kernels::Backend& b, const PassContext& p) { b.filter(p, {}); }), 1);
    EXPECT_EQ(of(tiles, blocks,
                 [&](kernels::Backend& b, const PassContext& p) {
                   b.filter(p, {.preconditioner = {},
                                .grafting = ElementwiseDirection{},
                                .grafting_norms = &norms,
                                .direction_norms = &norms});
                 }),
              2);
    EXPECT_EQ(of(tiles, blocks, [](kernels::Backend& b, const PassContext& p) { b.update(p, {}); }),
              1);
    EXPECT_EQ(of(tiles, blocks,
                 [](kernels::Backend& b, const PassContext& p) { b.filter_and_update(p, {}, {}); }),
              1);
    EXPECT_EQ(of(tiles, blocks,
                 [](kernels::Backend& b, const PassContext& p) {
                   b.apply(p.elements, nullptr, nullptr, nullptr);
                 }),
              1);
    EXPECT_EQ(of(tiles, blocks,
                 [](kernels::Backend& b, const PassContext& p) {
                   b.read_values(p.elements, nullptr, nullptr);
                 }),
              1);
    EXPECT_EQ(
        of(tiles, blocks,
           [](kernels::Backend& b, const PassContext& p) { b.pack_values(p.elements, nullptr); }),
        1);
    EXPECT_EQ(of(tiles, blocks,
                 [](kernels::Backend& b, const PassContext& p) { b.evaluate(p.elements, {}); }),
              1);
  }
}

TEST_F(Launches, OfNothingAreNone) {
  EXPECT_EQ(of(0, 0, [](kernels::Backend& b, const PassContext& p) { b.update(p, {}); }), 0);
  EXPECT_EQ(of(0, 0,
               [](kernels::Backend& b, const PassContext& p) {
                 b.apply(p.elements, nullptr, nullptr, nullptr);
               }),
            0);
}

struct Layout {
  std::int32_t rows, columns;
  std::int64_t row, column, first;
};

/// Whole groups, groups with a rest, rows that a group would cross, every kind of stride and
/// address.
constexpr Layout layouts[] = {
    {1, 1, 1, 1, 0},    {1, 7, 7, 1, 0},    {1, 8, 8, 1, 0},  {1, 9, 9, 1, 0},  {1, 8, 8, 1, 1},
    {3, 8, 8, 1, 0},    {3, 8, 24, 1, 0},   {3, 8, 24, 1, 8}, {3, 8, 13, 1, 0}, {3, 16, 20, 1, 0},
    {5, 7, 7, 1, 0},    {5, 7, 11, 1, 0},   {4, 8, 40, 2, 0}, {4, 8, 1, 4, 0},  {1, 17, 17, 3, 2},
    {31, 33, 33, 1, 0}, {31, 32, 64, 1, 32}};

template <typename Stored>
class StridedSpans : public ::testing::Test {};
using StoredTypes = ::testing::Types<double, float, Bfloat16, Float16>;
TYPED_TEST_SUITE(StridedSpans, StoredTypes);

template <typename Stored>
constexpr Type type_of_stored = std::is_same_v<Stored, double>     ? Type::float64
                                : std::is_same_v<Stored, float>    ? Type::float32
                                : std::is_same_v<Stored, Bfloat16> ? Type::bfloat16
                                                                   : Type::float16;

TYPED_TEST(StridedSpans, FindEveryElementOfATileAndNothingElse) {
  constexpr Type type = type_of_stored<TypeParam>;
  for (const Layout& layout : layouts) {
    Tile tile;
    tile.rows = layout.rows;
    tile.columns = layout.columns;
    const std::int64_t size =
        layout.first + (layout.rows - 1) * layout.row + (layout.columns - 1) * layout.column + 1;
    // Numbers up to 255 are exact in every type.
    struct alignas(16) Aligned {
      TypeParam elements[16 / sizeof(TypeParam)];
    };
    std::vector<Aligned> memory(static_cast<std::size_t>(size) * sizeof(TypeParam) / 16 + 1);
    TypeParam* const base = memory.front().elements;
    for (std::int64_t i = 0; i < size; ++i) base[i] = stored<TypeParam>(float(i % 255 + 1));
    const StridedSpan span = strided(base, type, tile, layout.first, layout.row, layout.column);

    const std::int32_t count = tile.rows * tile.columns;
    for (std::int32_t i = 0; i < count; i += group_size) {
      float x[group_size];
      read(span, i, count - i, x);
      for (std::int32_t k = 0; k < group_size; ++k) {
        const std::int32_t e = i + k;
        const std::int64_t place =
            layout.first + e / layout.columns * layout.row + e % layout.columns * layout.column;
        ASSERT_EQ(x[k], e < count ? float(place % 255 + 1) : 0.0f) << e;
        x[k] = 0;
      }
      write(span, i, count - i, x);
    }
    std::int64_t zeros = 0;
    for (std::int64_t i = 0; i < size; ++i) zeros += test::read(base + i, type) == 0;
    EXPECT_EQ(zeros, count);
  }
}

TYPED_TEST(StridedSpans, AreReadSixteenBytesAtATimeWhereAddressesAllowIt) {
  constexpr Type type = type_of_stored<TypeParam>;
  alignas(16) TypeParam elements[64];
  const auto aligned = [&](Layout l) {
    Tile tile;
    tile.rows = l.rows;
    tile.columns = l.columns;
    return strided(elements, type, tile, l.first, l.row, l.column).aligned;
  };
  EXPECT_TRUE(aligned({2, 8, 8, 1, 0}));
  EXPECT_TRUE(aligned({3, 5, 5, 1, 0}));
  EXPECT_TRUE(aligned({2, 8, 24, 1, 8}));
  EXPECT_FALSE(aligned({2, 8, 8, 1, 1}));
  EXPECT_FALSE(aligned({2, 8, 9, 1, 0}));
  EXPECT_FALSE(aligned({2, 7, 8, 1, 0}));
  EXPECT_FALSE(aligned({2, 8, 16, 2, 0}));
}

TEST(Emulated, WorkRunsWhenSomebodyWaits) {
  EmulatedDevice device;
  const double sent = 2.5;
  double received = 0;
  void* const memory = device.allocate(sizeof(sent));
  device.upload(memory, &sent, sizeof(sent));
  device.download(&received, memory, sizeof(received));
  EXPECT_EQ(received, 0);
  device.synchronize();
  EXPECT_EQ(received, 2.5);
  device.release(memory);
}

TEST(Emulated, NewMemoryIsNoNumber) {
  EmulatedDevice device;
  double received = 0;
  void* const memory = device.allocate(sizeof(received));
  device.download(&received, memory, sizeof(received));
  device.synchronize();
  EXPECT_NE(received, received);
  device.release(memory);
}

TEST(EmulatedDeathTest, TheHostCannotReadItsMemory) {
  EmulatedDevice device;
  void* const memory = device.allocate(8);
  device.synchronize();
  EXPECT_DEATH(std::memset(memory, 0, 8), "");
}

TEST(EmulatedDeathTest, ReleasedMemoryCanBeUsedByWorkBeforeButNotBehind) {
  EmulatedDevice device;
  void* const memory = device.allocate(8);
  void* const other = device.allocate(8);
  device.begin_capture();
  device.zero(memory, 8);
  const EmulatedDevice::Graph graph = device.end_capture();
  device.replay(graph);
  device.release(memory);
  device.synchronize();
  device.zero(other, 8);
  device.synchronize();
  device.replay(graph);
  EXPECT_DEATH(device.synchronize(), "");
}

TEST(EmulatedDeathTest, ReleasedHostMemoryCannotBeUsed) {
  EmulatedDevice device;
  void* const pinned = device.allocate_host(8);
  std::memset(pinned, 0, 8);
  device.upload(device.allocate(8), pinned, 8);
  device.release_host(pinned);
  EXPECT_DEATH(device.synchronize(), "");
}

}  // namespace
}  // namespace shampoo::kernels::cuda
