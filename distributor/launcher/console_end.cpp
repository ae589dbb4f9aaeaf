// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/console_end.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <string>

namespace shampoo::launcher {

/// O_NONBLOCK belongs to what all who inherited the descriptor share: hence one of our own.
ConsoleEnd::ConsoleEnd(int descriptor) : shared_(descriptor) {
  struct stat kind = {};
  if (::fstat(descriptor, &kind) != 0) return;
  socket_ = S_ISSOCK(kind.st_mode);
  if (!S_ISFIFO(kind.st_mode) && ::isatty(descriptor) == 0) return;
  const std::string name = "/proc/self/fd/" + std::to_string(descriptor);
  own_ = UniqueFd(::open(name.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  waits_ = !own_;
}

std::size_t ConsoleEnd::write(std::string_view text) {
  std::size_t taken = 0;
  while (!gone_ && taken < text.size()) {
    const std::string_view portion = text.substr(taken, PIPE_BUF);
    if (pollfd room{shared_, POLLOUT, 0}; waits_ && ::poll(&room, 1, 0) == 0) break;
    const ssize_t count =
        socket_ ? ::send(shared_, portion.data(), portion.size(), MSG_DONTWAIT | MSG_NOSIGNAL)
                : ::write(descriptor(), portion.data(), portion.size());
    if (count > 0) taken += static_cast<std::size_t>(count);
    if (count < 0 && errno == EAGAIN) break;
    gone_ = count < 0 && errno != EINTR;
  }
  return taken;
}

}  // namespace shampoo::launcher
