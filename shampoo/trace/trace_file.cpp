// SPDX-License-Identifier: Apache-2.0
#include "shampoo/trace/trace_file.h"

#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <stdexcept>
#include <system_error>

namespace shampoo {

namespace {

/// Upper bound of the bytes of an event.
constexpr std::size_t event_bytes = 200;

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& why) {
  throw std::invalid_argument(
      "options: trace must be a folder that can be written: " + path.string() + ": " + why);
}

std::string thread_name(std::size_t thread) {
  if (thread == 0) return "step";
  const std::size_t index = thread - 1;
  const std::string name = name_of(phase_at(index));
  if (index < step_phases) return name;
  return "virtual group " + std::to_string((index - step_phases) / group_phases) + ": " + name;
}

}  // namespace

TraceFile::TraceFile(const std::filesystem::path& folder, int rank)
    : path_(folder / ("rank-" + std::to_string(rank) + ".json")), rank_(rank) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) refuse(folder, error.message());
  file_.reset(std::fopen(path_.c_str(), "ae"));
  if (!file_) refuse(path_, std::generic_category().message(errno));
  const int descriptor = fileno(file_.get());
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    refuse(path_, "another optimizer writes it");
  if (ftruncate(descriptor, 0) != 0) refuse(path_, std::generic_category().message(errno));
  std::setbuf(file_.get(), nullptr);  // a step is one call of write()
  name_process();
  if (!file_) refuse(path_, std::generic_category().message(error_));
}

TraceFile::~TraceFile() {
  text_ = "\n]\n";
  write();
  if (file_) flock(fileno(file_.get()), LOCK_UN);  // a forked child may have the file open
}

void TraceFile::name_process() {
  const std::string rank = std::to_string(rank_);
  text_ = "[\n{\"ph\":\"M\",\"pid\":" + rank +
          R"(,"tid":0,"name":"process_name","args":{"name":"shampoo, rank )" + rank + "\"}}";
  text_ += ",\n{\"ph\":\"M\",\"pid\":" + rank +
           R"(,"tid":0,"name":"process_sort_index","args":{"sort_index":)" + rank + "}}";
  write();
}

void TraceFile::name_thread(std::size_t thread, const std::string& name) {
  const std::string head = ",\n{\"ph\":\"M\",\"pid\":" + std::to_string(rank_) +
                           ",\"tid\":" + std::to_string(thread) + ",\"name\":\"thread_";
  text_ += head + R"(name","args":{"name":")" + name + "\"}}";
  text_ += head + R"(sort_index","args":{"sort_index":)" + std::to_string(thread) + "}}";
}

void TraceFile::reserve(std::size_t virtual_groups, std::size_t phases) {
  const std::size_t threads = 1 + step_phases + virtual_groups * group_phases;
  for (; named_ < threads; ++named_) name_thread(named_, thread_name(named_));
  write();
  text_.reserve((1 + phases) * event_bytes);
}

double TraceFile::start() {
  const auto now = std::chrono::steady_clock::now();
  if (!origin_) origin_ = now;
  return std::chrono::duration<double>(now - *origin_).count();
}

void TraceFile::begin(std::int64_t step, std::optional<bool> applied, double at, double seconds) {
  step_ = step;
  add_times(0, at, seconds);
  text_ += ",\"name\":\"step\",\"args\":{\"step\":";
  add_number(step);
  if (applied) text_ += *applied ? ",\"applied\":true" : ",\"applied\":false";
  text_ += "}}";
}

void TraceFile::add(std::size_t phase, double at, double seconds) {
  add_times(1 + phase, at, seconds);
  text_ += ",\"name\":\"";
  text_ += name_of(phase_at(phase));
  text_ += "\",\"args\":{\"step\":";
  add_number(step_);
  text_ += "}}";
}

void TraceFile::end() {
  write();
  if (file_) written_step_ = step_;
}

void TraceFile::add_times(std::size_t thread, double at, double seconds) {
  text_ += ",\n{\"ph\":\"X\",\"pid\":";
  add_number(rank_);
  text_ += ",\"tid\":";
  add_number(static_cast<std::int64_t>(thread));
  text_ += ",\"ts\":";
  add_microseconds(at);
  text_ += ",\"dur\":";
  add_microseconds(seconds);
}

void TraceFile::add_number(std::int64_t number) {
  std::array<char, 24> digits;
  const auto [end, error] = std::to_chars(digits.begin(), digits.end(), number);
  text_.append(digits.begin(), end);
}

/// In whole nanoseconds.
void TraceFile::add_microseconds(double seconds) {
  const auto nanoseconds = std::max<std::int64_t>(0, std::llround(seconds * 1e9));
  add_number(nanoseconds / 1000);
  text_ += '.';
  for (std::int64_t unit = 100; unit > 0; unit /= 10)
    text_ += static_cast<char>('0' + nanoseconds / unit % 10);
}

void TraceFile::write() {
  errno = 0;
  if (file_ && std::fwrite(text_.data(), 1, text_.size(), file_.get()) != text_.size()) {
    error_ = errno;
    file_.reset();
    std::error_code ignored;
    std::filesystem::resize_file(path_, written_, ignored);
  }
  written_ += text_.size();
  text_.clear();
}

std::string TraceFile::description() const {
  if (file_) return "trace in " + path_.string();
  return "trace in " + path_.string() + " has ended after step " + std::to_string(written_step_) +
         ": " + std::generic_category().message(error_);
}

}  // namespace shampoo
