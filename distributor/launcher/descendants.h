// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <set>
#include <vector>

namespace shampoo::launcher {

/// A process below another one, as /proc showed it.
struct Descendant {
  pid_t pid = 0;
  pid_t group = 0;
  bool stopped = false;  ///< by SIGSTOP or its kin
};

/// All processes below `root` but those below `spared`; none where there is no /proc. Those that
/// have ended and were not waited for count: a process whose first thread has ended looks alike. A
/// process that forks meanwhile may be missed: ask again.
std::vector<Descendant> descendants_of(pid_t root, const std::set<pid_t>& spared = {});

/// Makes this process the parent of all orphans below it, and so descendants_of() complete, even
/// for daemons. Throws std::system_error.
void adopt_orphans();

}  // namespace shampoo::launcher
