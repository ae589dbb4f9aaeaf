// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/line_buffer.h"

#include <algorithm>

namespace shampoo::launcher {

void LineBuffer::add(std::string_view bytes, const Receiver& receive) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const bool whole = end != std::string_view::npos;
    const std::size_t room = longest_ - begun_.size();
    const std::size_t taken = std::min(whole ? end : bytes.size(), room);
    begun_ += bytes.substr(0, taken);
    bytes.remove_prefix(taken);
    if (whole && taken == end) bytes.remove_prefix(1);
    if ((whole && taken == end) || (begun_.size() == longest_ && !bytes.empty())) {
      begun_ += '\n';
      receive(begun_);
      begun_.clear();
    }
  }
}

void LineBuffer::flush(const Receiver& receive) {
  if (begun_.empty()) return;
  begun_ += '\n';
  receive(begun_);
  begun_.clear();
}

}  // namespace shampoo::launcher
