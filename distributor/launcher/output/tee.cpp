// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/output/tee.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "distributor/system/thread_without_signals.h"

namespace shampoo::launcher {
namespace {

constexpr std::size_t most_bytes = std::size_t{64} << 10;

/// Appends the complete lines of stream.line and `text`, each with the prefix, to `shown`. A line
/// longer than most_bytes is cut.
void take_lines(TeeStream& stream, std::string_view text, std::string& shown) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::size_t size = std::min(std::min(end, text.size()), most_bytes - stream.line.size());
    stream.line += text.substr(0, size);
    text.remove_prefix(size);
    const bool complete = text.starts_with('\n');
    if (complete) text.remove_prefix(1);
    if (!complete && (text.empty() || stream.line.size() < most_bytes)) continue;
    shown += stream.prefix + stream.line + '\n';
    stream.line.clear();
  }
}

}  // namespace

void write_all(int descriptor, std::string_view bytes) {
  while (descriptor >= 0 && !bytes.empty()) {
    const ssize_t count = ::write(descriptor, bytes.data(), bytes.size());
    if (count > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno == EAGAIN) {  // somebody who shares the console made it so
      pollfd room{descriptor, POLLOUT, 0};
      ::poll(&room, 1, -1);
    } else if (errno != EINTR) {
      return;
    }
  }
}

Tee::Tee() : thread_(thread_without_signals([this] { run(); })) {}

Tee::~Tee() { finish(std::chrono::milliseconds(0)); }

void Tee::add(TeeStream stream) {
  const std::scoped_lock lock(mutex_);
  new_streams_.push_back(std::move(stream));
  wake_.set();
}

void Tee::finish(std::chrono::milliseconds longest) {
  if (!thread_.joinable()) return;
  deadline_ = Clock::now() + longest;
  finishing_ = true;
  wake_.set();
  thread_.join();
}

void Tee::run() {
  for (bool last = false; !last;) {
    wake_.clear();
    const bool finishing = finishing_;
    last = finishing && milliseconds_left() == 0;
    {
      const std::scoped_lock lock(mutex_);
      streams_.splice(streams_.end(), new_streams_);
    }
    if (finishing && streams_.empty()) return;
    std::vector<pollfd> polled{{wake_.descriptor(), POLLIN, 0}};
    for (const TeeStream& stream : streams_) polled.push_back({stream.pipe.get(), POLLIN, 0});
    ::poll(polled.data(), polled.size(), finishing ? milliseconds_left() : -1);
    std::size_t index = 0;
    std::erase_if(streams_, [&](TeeStream& stream) {
      return polled[++index].revents != 0 && !read_some(stream);
    });
  }
  for (TeeStream& stream : streams_) end(stream);
}

int Tee::milliseconds_left() const {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now());
  return static_cast<int>(std::max(left, std::chrono::milliseconds(0)).count());
}

/// One call takes all that a pipe holds. False at the end.
bool Tee::read_some(TeeStream& stream) {
  std::array<char, most_bytes> bytes;
  const ssize_t count = ::read(stream.pipe.get(), bytes.data(), bytes.size());
  if (count < 0 && errno == EINTR) return true;
  if (count <= 0) {
    end(stream);
    return false;
  }
  const std::string_view text(bytes.data(), static_cast<std::size_t>(count));
  write_all(stream.file.get(), text);
  std::string shown;
  take_lines(stream, text, shown);
  write_all(stream.console, shown);
  return true;
}

/// Shows a last line that lacks its end.
void Tee::end(TeeStream& stream) {
  if (!stream.line.empty()) write_all(stream.console, stream.prefix + stream.line + '\n');
}

}  // namespace shampoo::launcher
