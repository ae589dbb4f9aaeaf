// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/tee.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <utility>

#include "distributor/system/thread_without_signals.h"

namespace shampoo::launcher {
namespace {

constexpr std::size_t kMostBytes = std::size_t{64} << 10;

}  // namespace

bool LineFilter::takes(std::string_view line) const {
  return std::ranges::any_of(
      words, [&](const std::string& word) { return line.find(word) != std::string_view::npos; });
}

void Tee::Limit::set(std::chrono::milliseconds from_now) {
  const std::int64_t wanted = (Clock::now() + from_now).time_since_epoch().count();
  std::int64_t before = at_;
  while (wanted < before && !at_.compare_exchange_weak(before, wanted)) {
  }
  news_.set();
}

int Tee::Limit::milliseconds_left() const {
  if (!is_set()) return -1;
  const auto left = Clock::duration(at_) - Clock::now().time_since_epoch();
  const auto rounded = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::clamp<std::int64_t>(rounded, 0, INT_MAX));
}

Tee::Tee() : thread_(thread_without_signals([this] { run(); })) {}

Tee::~Tee() { finish(std::chrono::milliseconds(0)); }

void Tee::add(TeeStream stream) {
  const std::scoped_lock lock(mutex_);
  new_streams_.push_back(std::move(stream));
  new_.set();
}

void Tee::close(std::chrono::milliseconds patience) { streams_limit_.set(patience); }

void Tee::hurry(std::chrono::milliseconds patience) { console_limit_.set(patience); }

void Tee::finish(std::chrono::milliseconds patience) {
  if (!thread_.joinable()) return;
  close(patience);
  hurry(patience);
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
  done_ = true;
  ended_.set();
}

void Tee::take_new_streams() {
  const std::scoped_lock lock(mutex_);
  std::ranges::move(new_streams_, std::back_inserter(streams_));
  new_streams_.clear();
}

/// True where nothing more is to be waited for. One read takes all that a pipe holds.
bool Tee::wait_for_input(std::vector<bool>& ready) {
  new_.clear();
  const bool closed = streams_limit_.is_set();
  take_new_streams();
  ready.assign(streams_.size(), false);
  if (closed && streams_.empty()) return true;
  std::vector<pollfd> polled;
  for (const TeeStream& stream : streams_) polled.push_back({stream.pipe.get(), POLLIN, 0});
  polled.push_back({new_.descriptor(), POLLIN, 0});
  if (!closed) polled.push_back({streams_limit_.descriptor(), POLLIN, 0});
  ::poll(polled.data(), polled.size(), streams_limit_.milliseconds_left());
  for (std::size_t i = 0; i < streams_.size(); ++i) ready[i] = polled[i].revents != 0;
  return closed && streams_limit_.over();
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
void Tee::write_file(const UniqueFd& file, std::string_view bytes) {
  while (file && !bytes.empty()) {
    const ssize_t count = ::write(file.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    bytes.remove_prefix(count);
  }
}

void Tee::write_console(int console, std::string_view text) {
  if (console < 0) return;
  ConsoleEnd& end = consoles_.try_emplace(console, console).first->second;
  do text.remove_prefix(end.write(text));
  while (!text.empty() && !end.gone() && takes_more(end));
  if (!end.gone()) dropped_ += text.size();
}

/// Waits for as long as nobody is in a hurry.
bool Tee::takes_more(const ConsoleEnd& console) const {
  for (;;) {
    const bool hurried = console_limit_.is_set();
    std::array<pollfd, 2> polled{pollfd{console.descriptor(), POLLOUT, 0},
                                 pollfd{console_limit_.descriptor(), POLLIN, 0}};
    const int left = console_limit_.milliseconds_left();
    const int found = ::poll(polled.data(), hurried ? 1 : 2, left);
    if (found < 0 && errno != EINTR) return false;
    if (found > 0 && polled[0].revents != 0) return true;
    if (hurried && left == 0) return false;
  }
}

}  // namespace shampoo::launcher
