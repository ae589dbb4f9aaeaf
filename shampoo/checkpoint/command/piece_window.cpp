// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/command/piece_window.h"

#include <algorithm>

namespace shampoo::checkpoint::command {

std::span<const std::byte> PieceWindow::at(std::uint64_t offset, std::size_t size) {
  if (offset < begin_ || offset + size > end_) {
    begin_ = end_ = 0;
    const auto part =
        std::span(kept_).first(std::min<std::uint64_t>(most, bytes_ - std::min(bytes_, offset)));
    reader_->read_part(*piece_, offset, part);
    begin_ = offset;
    end_ = offset + part.size();
  }
  return std::span(kept_).subspan(offset - begin_, size);
}

}  // namespace shampoo::checkpoint::command
