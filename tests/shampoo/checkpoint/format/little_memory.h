// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <new>

#include "shampoo/checkpoint_directory.h"

namespace shampoo::checkpoint::test {

enum Outcome { accepted = 10, refused = 11, out_of_memory = 12, other = 13 };

inline std::uint64_t address_space() {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

/// What an action comes to in a process that gets only so many bytes and 16 MiB more.
template <typename Action>
Outcome with_little_memory(std::uint64_t bytes, const Action& action) {
  const pid_t child = ::fork();
  if (child == 0) {
    const std::uint64_t most = address_space() + bytes + (std::uint64_t{16} << 20);
    const rlimit limit{most, most};
    if (::setrlimit(RLIMIT_AS, &limit) != 0) ::_exit(other);
    try {
      action();
      ::_exit(accepted);
    } catch (const std::bad_alloc&) {
      ::_exit(out_of_memory);
    } catch (const CheckpointError&) {
      ::_exit(refused);
    } catch (...) {
      ::_exit(other);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? static_cast<Outcome>(WEXITSTATUS(status)) : other;
}

}  // namespace shampoo::checkpoint::test
