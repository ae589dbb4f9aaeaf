// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <vector>

namespace shampoo::launcher {

/// A process below another one, as /proc showed it.
struct Descendant {
  pid_t pid = 0;
  pid_t group = 0;
  bool stopped = false;  ///< by SIGSTOP or its kin
};

/// All living processes below `root`. A process that forks meanwhile may be missed: ask again.
std::vector<Descendant> descendants_of(pid_t root);

/// Makes this process the parent of all orphans below it, and so descendants_of() complete, even
/// for daemons. Throws std::system_error.
void adopt_orphans();

/// Sends `signal` to each of a list, once per process group among `groups`, and wakes up those that
/// are stopped, so that they notice.
void signal_descendants(int signal, const std::vector<Descendant>& descendants,
                        const std::vector<pid_t>& groups);

}  // namespace shampoo::launcher
