// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <stdexcept>

namespace examples {

/// To be called at the end: throws std::runtime_error where some of the standard output was lost,
/// as on a disk that is full.
inline void finish_output() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    throw std::runtime_error("standard output cannot be written");
}

}  // namespace examples
