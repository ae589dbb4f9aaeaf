// SPDX-License-Identifier: Apache-2.0
#include "examples/fashion/network/share.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>
#include <string_view>

#include "examples/checksum.h"
#include "examples/fashion/network/batches.h"
#include "examples/fashion/network/layout.h"

namespace fashion {
namespace {

TEST(FashionShare, CoversABatchOnceForEveryNumberOfRanks) {
  for (int ranks = 1; ranks <= 256; ++ranks) {
    int next = 0, least = 256, most = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const Share own = share(256, rank, ranks);
      ASSERT_EQ(own.first, next) << "rank " << rank << " of " << ranks;
      next += own.count;
      least = std::min(least, own.count);
      most = std::max(most, own.count);
    }
    EXPECT_EQ(next, 256) << ranks << " ranks";
    EXPECT_GE(least, 1) << ranks << " ranks";
    EXPECT_LE(most - least, 1) << ranks << " ranks";
  }
}

TEST(FashionShare, WorksForTheLargestNumbers) {
  constexpr int all = std::numeric_limits<int>::max();

  const Share last = share(all, 1023, 1024);

  EXPECT_EQ(last.first + last.count, all);
}

TEST(FashionShare, SharesOfABatchAreTheBatch) {
  LabelledImages images;
  for (int i = 0; i < 20; ++i) {
    images.labels.push_back(static_cast<std::uint8_t>(i));
    images.pixels.insert(images.pixels.end(), image_size, static_cast<std::uint8_t>(10 * i));
  }
  const Normalisation normalisation(images);
  Batches all(images, normalisation, 8, 3, {0, 8});
  all.advance();
  all.advance();

  for (const int ranks : {1, 2, 3, 8}) {
    std::vector<float> pixels;
    std::vector<std::uint8_t> labels;
    for (int rank = 0; rank < ranks; ++rank) {
      Batches own(images, normalisation, 8, 3, share(8, rank, ranks));
      own.advance();
      own.advance();
      pixels.insert(pixels.end(), own.images().begin(), own.images().end());
      labels.insert(labels.end(), own.labels().begin(), own.labels().end());
    }
    EXPECT_TRUE(std::ranges::equal(pixels, all.images())) << ranks << " ranks";
    EXPECT_TRUE(std::ranges::equal(labels, all.labels())) << ranks << " ranks";
  }
}

std::uint64_t checksum_of(std::string_view text) {
  return examples::checksum(std::as_bytes(std::span(text)));
}

TEST(Checksum, IsTheOneThatIsPublished) {
  // From the test vectors of FNV's authors.
  EXPECT_EQ(checksum_of(""), 0xcbf29ce484222325);
  EXPECT_EQ(checksum_of("a"), 0xaf63dc4c8601ec8c);
  EXPECT_EQ(checksum_of("foobar"), 0x85944171f73967e8);
}

TEST(Checksum, ContinuesWhereBytesEnd) {
  const std::string_view rest = "bar";

  EXPECT_EQ(examples::checksum(std::as_bytes(std::span(rest)), checksum_of("foo")),
            checksum_of("foobar"));
}

}  // namespace
}  // namespace fashion
