// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <malloc.h>

#include <cstdint>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

namespace shampoo::test {

/// Of /proc/self/status, in bytes.
inline std::int64_t memory_of_process(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(field + ":")) {
      std::istringstream numbers(line.substr(field.size() + 1));
      std::int64_t kibibytes = 0;
      numbers >> kibibytes;
      return kibibytes << 10;
    }
  throw std::runtime_error("/proc/self/status: no " + field);
}

/// The peak, VmHWM, becomes what there is now. False where the system has no such thing.
inline bool forget_peak() {
  ::malloc_trim(0);
  std::ofstream clear("/proc/self/clear_refs");
  clear << 5 << std::flush;
  return clear.good();
}

}  // namespace shampoo::test
