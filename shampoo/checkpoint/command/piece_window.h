// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "shampoo/checkpoint/reader.h"

namespace shampoo::checkpoint::command {

/// Looks at a piece through a part of it that is kept in memory, read ahead.
class PieceWindow {
 public:
  /// Most bytes at once.
  static constexpr std::size_t most = std::size_t{1} << 20;

  explicit PieceWindow(const Reader& reader) : reader_(&reader), kept_(most) {}

  /// Goes to a piece, of so many bytes, which must outlive its use.
  void look_at(const SavedPiece& piece, std::uint64_t bytes) {
    piece_ = &piece;
    bytes_ = bytes;
    begin_ = end_ = 0;
  }

  /// `size` bytes, at most `most`, from byte `offset` of the piece on, until the next call. Fastest
  /// when offsets grow. Throws as Reader::read_part() does.
  std::span<const std::byte> at(std::uint64_t offset, std::size_t size);

 private:
  const Reader* reader_;
  const SavedPiece* piece_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::uint64_t begin_ = 0, end_ = 0;  ///< what is kept
  std::vector<std::byte> kept_;
};

}  // namespace shampoo::checkpoint::command
