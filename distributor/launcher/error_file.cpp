// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/error_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>

#include "distributor/system/unique_fd.h"

namespace shampoo::launcher {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::system_clock;

constexpr std::size_t kMostBytes = std::size_t{16} << 20;

/// Null where a key is missing or `value` is no object.
Json member(const Json& value, const char* key) {
  return value.is_object() && value.contains(key) ? value.at(key) : Json();
}

std::string text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.is_null() ? "" : value.dump();
}

/// Seconds since 1970, as a number or a string of digits.
std::optional<Clock::time_point> time(const Json& value) {
  double seconds = -1;
  if (value.is_number()) {
    seconds = value.get<double>();
  } else if (value.is_string()) {
    const auto& digits = value.get_ref<const std::string&>();
    std::from_chars(digits.data(), digits.data() + digits.size(), seconds);
  }
  constexpr double kMostSeconds = 9e9;  // in nanoseconds: what the clock's 64 bits hold
  if (!(seconds >= 0) || seconds > kMostSeconds) return std::nullopt;
  return Clock::time_point(
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)));
}

/// Broken text gives a discarded value. Parts nested deeper than any report are dropped, so that
/// recursion ends.
Json parse(const std::string& content) {
  constexpr int kDeepest = 64;
  const auto keep = [](int depth, Json::parse_event_t, Json&) { return depth < kDeepest; };
  return Json::parse(content, keep, false);
}

std::string read_all(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string content;
  for (char byte; content.size() < kMostBytes && file.get(byte);) content.push_back(byte);
  return content;
}

ErrorFile understand(std::string content) {
  ErrorFile result;
  const Json json = parse(content);
  const Json message = member(json, "message");
  if (json.is_discarded() || message.is_null()) {
    result.broken = true;
    result.message = content.empty() ? "the error file is empty"
                     : json.is_discarded()
                         ? "the error file is not JSON: " + content.substr(0, 200)
                         : "the error file has no message: " + content.substr(0, 200);
  } else if (message.is_object()) {
    const Json extra = member(message, "extraInfo");
    result.message = text(member(message, "message"));
    result.traceback = text(member(extra, "py_callstack"));
    result.time = time(member(extra, "timestamp"));
  } else {
    result.message = text(message);
    result.time = time(member(json, "timestamp"));
  }
  result.content = std::move(content);
  return result;
}

Json content_for_parent(const std::optional<ErrorFile>& root, const std::string& message,
                        Clock::time_point when, int exit_code) {
  if (root && !root->broken) {
    Json json = parse(root->content);
    Json& holder = json["message"].is_object() ? json["message"] : json;
    holder["errorCode"] = exit_code;
    return json;
  }
  const auto since = std::chrono::duration_cast<std::chrono::seconds>(when.time_since_epoch());
  return {
      {"message",
       {{"message", message},
        {"errorCode", exit_code},
        {"extraInfo", {{"py_callstack", message}, {"timestamp", std::to_string(since.count())}}}}}};
}

[[noreturn]] void fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

std::optional<ErrorFile> read_error_file(const std::filesystem::path& path) {
  std::error_code nothing;
  if (path.empty() || !std::filesystem::is_regular_file(path, nothing)) return std::nullopt;
  return understand(read_all(path));
}

void write_error_file(const std::filesystem::path& path, const std::optional<ErrorFile>& root,
                      const std::string& message, Clock::time_point when, int exit_code) {
  const Json json = content_for_parent(root, message, when, exit_code);
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  const std::string neighbour = path.string() + ".tmp" + std::to_string(::getpid());
  UniqueFd file(::open(neighbour.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file) fail("cannot write " + neighbour);
  for (std::size_t written = 0; written < text.size();) {
    const ssize_t count = ::write(file.get(), text.data() + written, text.size() - written);
    if (count < 0 && errno != EINTR) fail("cannot write " + neighbour);
    if (count > 0) written += count;
  }
  file.reset();
  if (::rename(neighbour.c_str(), path.c_str()) != 0) fail("cannot rename to " + path.string());
}

}  // namespace shampoo::launcher
