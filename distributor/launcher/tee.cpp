// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/tee.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <system_error>

namespace shampoo::launcher {
namespace {

constexpr std::size_t kMostBytes = std::size_t{64} << 10;

Descriptor make_event() {
  Descriptor event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) throw std::system_error(errno, std::generic_category(), "eventfd");
  return event;
}

void notify(const Descriptor& event) {
  const std::uint64_t one = 1;
  while (::write(event.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
}

}  // namespace

bool LineFilter::takes(std::string_view line) const {
  return std::ranges::any_of(
      words, [&](const std::string& word) { return line.find(word) != std::string_view::npos; });
}

Tee::Tee() : news_(make_event()), stop_(make_event()) {
  // A new thread inherits the mask, and signals are somebody else's work.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { run(); });
  } catch (...) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Tee::~Tee() { finish(std::chrono::milliseconds(0)); }

void Tee::add(TeeStream stream) {
  const std::scoped_lock lock(mutex_);
  new_streams_.push_back(std::move(stream));
  notify(news_);
}

void Tee::finish(std::chrono::milliseconds patience) {
  if (!thread_.joinable()) return;
  stop_at_ = (Clock::now() + patience).time_since_epoch().count();
  notify(stop_);
  thread_.join();
}

void Tee::run() {
  std::vector<bool> ready;
  for (bool last = false; !last;) {
    last = wait_for_input(ready);
    std::size_t index = 0;
    for (auto stream = streams_.begin(); stream != streams_.end();) {
      const bool more = !ready[index++] || read_some(*stream);
      if (!more) end(*stream);
      stream = more ? std::next(stream) : streams_.erase(stream);
    }
  }
  for (TeeStream& stream : streams_) end(stream);
}

void Tee::take_new_streams() {
  const std::scoped_lock lock(mutex_);
  std::ranges::move(new_streams_, std::back_inserter(streams_));
  new_streams_.clear();
}

/// True where nothing more is to be waited for. One read takes all that a pipe holds.
bool Tee::wait_for_input(std::vector<bool>& ready) {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t read = ::read(news_.get(), &count, sizeof count);
  const bool stop = stopping();
  take_new_streams();
  ready.assign(streams_.size(), false);
  if (stop && streams_.empty()) return true;
  std::vector<pollfd> polled;
  for (const TeeStream& stream : streams_) polled.push_back({stream.pipe.get(), POLLIN, 0});
  polled.push_back({news_.get(), POLLIN, 0});
  if (!stop) polled.push_back({stop_.get(), POLLIN, 0});
  ::poll(polled.data(), polled.size(), milliseconds_left());
  for (std::size_t i = 0; i < streams_.size(); ++i) ready[i] = polled[i].revents != 0;
  return stop && milliseconds_left() == 0;
}

/// False at the end.
bool Tee::read_some(TeeStream& stream) {
  std::array<char, kMostBytes> bytes;
  const ssize_t count = ::read(stream.pipe.get(), bytes.data(), bytes.size());
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  if (count == 0) return false;
  const std::string_view text(bytes.data(), count);
  write_file(stream.file, text);
  std::string console;
  stream.lines.add(text, [&](std::string_view line) { write_line(stream, line, console); });
  write_console(stream.console, console);
  return true;
}

void Tee::write_line(TeeStream& stream, std::string_view line, std::string& console) {
  const std::string with_prefix = stream.prefix + std::string(line);
  if (stream.filter != nullptr && stream.filter->takes(line)) {
    write_file(stream.filter->file, with_prefix);
  }
  if (stream.console >= 0) console += with_prefix;
}

void Tee::end(TeeStream& stream) {
  std::string console;
  stream.lines.flush([&](std::string_view line) { write_line(stream, line, console); });
  write_console(stream.console, console);
}

/// Files that take no more, as a disk is full, are left as they are: the console goes on.
void Tee::write_file(const Descriptor& file, std::string_view bytes) {
  while (file && !bytes.empty()) {
    const ssize_t count = ::write(file.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    bytes.remove_prefix(count);
  }
}

/// Portions of which a pipe that can take one takes all.
void Tee::write_console(int console, std::string_view text) {
  while (console >= 0 && !text.empty() && !dead_consoles_.contains(console)) {
    if (!console_takes_more(console)) {
      dead_consoles_.insert(console);
      return;
    }
    const ssize_t count =
        ::write(console, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
    if (count < 0 && errno != EINTR && errno != EAGAIN) dead_consoles_.insert(console);
    if (count > 0) text.remove_prefix(count);
  }
}

/// Waits for as long as nobody wants to finish.
bool Tee::console_takes_more(int console) {
  for (;;) {
    const bool last_round = stopping();
    std::array<pollfd, 2> polled{pollfd{console, POLLOUT, 0}, pollfd{stop_.get(), POLLIN, 0}};
    const int found = ::poll(polled.data(), last_round ? 1 : 2, milliseconds_left());
    if (found < 0 && errno != EINTR) return false;
    if (found > 0 && polled[0].revents != 0) return true;
    if (last_round && milliseconds_left() == 0) return false;
  }
}

/// -1: no limit.
int Tee::milliseconds_left() const {
  const std::int64_t stop_at = stop_at_;
  if (stop_at == 0) return -1;
  const auto left = Clock::duration(stop_at) - Clock::now().time_since_epoch();
  const auto rounded = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::clamp<std::int64_t>(rounded, 0, INT_MAX));
}

}  // namespace shampoo::launcher
