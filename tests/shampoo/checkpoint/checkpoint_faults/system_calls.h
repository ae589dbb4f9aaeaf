// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace shampoo::checkpoint::test {

/// What happens to a system call instead of its work.
enum class Fate {
  happens,
  shortened,  ///< a write of one byte, if it has more
  fails,
  fails_though_done,  ///< happens, and is answered with an error
};

struct CallFault {
  Fate fate = Fate::happens;
  int error = 0;  ///< errno of a call that fails
  /// Called first, beside other calls; may be empty.
  std::function<void()> wait = nullptr;
};

/// Which calls are watched.
enum class Calls {
  changes,  ///< those on the way to a checkpoint
  all       ///< also "status /path" (lstat), "read /path" (pread) and "unlink /path" in a folder
};

/// Decides about each call of open, write, fsync, close, rename, renameat2 and mkdir that changes
/// or syncs something on the way to a checkpoint, before it happens: its place, from 0 on, and its
/// text, "fsync /path"; renameat2 is "exchange" or "rename_to_new". Of all threads, one call after
/// the other; one watch at a time. What `decide` does itself is not watched.
class CallWatch {
 public:
  using Decide = std::function<CallFault(std::size_t place, const std::string& call)>;

  explicit CallWatch(Decide decide, Calls watched = Calls::changes);
  ~CallWatch();
  CallWatch(const CallWatch&) = delete;
  CallWatch& operator=(const CallWatch&) = delete;
};

/// The calls that an action makes.
std::vector<std::string> calls_of(const std::function<void()>& action);

}  // namespace shampoo::checkpoint::test
