// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/output/console_stream.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <string>

#include "distributor/launcher/poll_time.h"

namespace shampoo::launcher {
namespace {

/// Empty for other kinds of files, and where it cannot be opened.
UniqueFd opened_without_waiting(int descriptor) {
  struct stat status = {};
  const bool is_pipe = ::fstat(descriptor, &status) == 0 && S_ISFIFO(status.st_mode);
  if (!is_pipe && ::isatty(descriptor) == 0) return {};
  const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  return UniqueFd(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

/// Up to PIPE_BUF bytes, which a pipe with room takes at once and in one piece; whole lines where
/// they fit, as workers may write to the same console.
std::string_view next_piece(std::string_view bytes) {
  const std::string_view most = bytes.substr(0, PIPE_BUF);
  const std::size_t end = most.rfind('\n');
  return end == std::string_view::npos ? most : most.substr(0, end + 1);
}

}  // namespace

ConsoleStream::ConsoleStream(int descriptor)
    : borrowed_(descriptor), own_(opened_without_waiting(descriptor)) {}

int ConsoleStream::write(std::string_view& bytes) const {
  while (!bytes.empty()) {
    pollfd room{descriptor(), POLLOUT, 0};
    if (::poll(&room, 1, 0) == 0) return 0;
    const std::string_view piece = next_piece(bytes);
    const ssize_t count = ::write(descriptor(), piece.data(), piece.size());
    if (count >= 0)
      bytes.remove_prefix(static_cast<std::size_t>(count));
    else if (errno == EAGAIN)
      return 0;
    else if (errno != EINTR)
      return errno;
  }
  return 0;
}

void ConsolePatience::end_at(Time end) {
  if (end >= end_.load()) return;
  end_ = end;
  shortened_.set();
}

bool ConsolePatience::wait_for_room(const ConsoleStream& console) const {
  while (true) {
    shortened_.clear();
    const Time end = end_;
    std::array polled{pollfd{console.descriptor(), POLLOUT, 0},
                      pollfd{shortened_.descriptor(), POLLIN, 0}};
    ::poll(polled.data(), polled.size(), poll_time(end));
    if (polled[0].revents != 0) return true;
    if (std::chrono::steady_clock::now() >= end) return false;
  }
}

}  // namespace shampoo::launcher
