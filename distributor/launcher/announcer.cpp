// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/announcer.h"

namespace shampoo::launcher {

void Announcer::say(std::string_view line) { print("shampoorun: " + std::string(line) + "\n"); }

void Announcer::print(std::string_view text) {
  constexpr std::size_t enough = std::size_t{1} << 20;
  if (pending_.size() < enough) pending_ += text;
  flush();
}

void Announcer::flush() {
  pending_.erase(0, console_.write(pending_));
  if (console_.gone()) pending_.clear();
}

}  // namespace shampoo::launcher
