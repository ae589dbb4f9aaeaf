// SPDX-License-Identifier: Apache-2.0
#include "grouping/hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace shampoo::grouping {
namespace {

TEST(Hash, IsXxh3WhateverTheParts) {
  // Of the reference implementation: xxhsum -H3.
  EXPECT_EQ(hash(""), 0x2d06800538d394c2u);
  std::vector<std::byte> bytes(1000);
  std::generate(bytes.begin(), bytes.end(), [next = 0]() mutable { return std::byte(next++ * 7); });
  Hash parts;
  parts.add(std::span(bytes).first(1));
  parts.add(std::span(bytes).subspan(1, 300));
  parts.add(std::span<const std::byte>());
  parts.add(std::span(bytes).subspan(301));
  EXPECT_EQ(parts.value(), hash(bytes));
  EXPECT_EQ(parts.value(), hash(bytes)) << "asked twice";

  parts.restart();
  EXPECT_EQ(parts.value(), hash(""));
}

TEST(Hash, TakesWordsAsTheirBytes) {
  std::vector<std::uint64_t> words(101);
  std::generate(words.begin(), words.end(),
                [next = 1ULL]() mutable { return next *= 6364136223846793005; });
  Hash parts;
  for (const std::uint64_t word : words) parts.add(word);
  parts.add("text");
  parts.add(words[0]);

  Hash whole;
  whole.add(std::as_bytes(std::span(words)));
  whole.add("text");
  whole.add(std::as_bytes(std::span(words)).first(8));
  EXPECT_EQ(parts.value(), whole.value());
}

TEST(Hash, TellsNoNumberFromZero) {
  const auto of = [](const std::optional<double>& number) {
    Hash hash;
    hash.add(number);
    return hash.value();
  };
  EXPECT_NE(of(std::nullopt), of(0.0));
  EXPECT_NE(of(0.0), of(-0.0));
  EXPECT_EQ(of(0.5), of(0.5));
}

}  // namespace
}  // namespace shampoo::grouping
