// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/output/error_file.h"

#include <charconv>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

namespace shampoo::launcher {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::system_clock;

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
  constexpr double most_seconds = 9e9;  // in nanoseconds: what the clock's 64 bits hold
  if (!(seconds >= 0) || seconds > most_seconds) return std::nullopt;
  return Clock::time_point(
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)));
}

/// Broken text gives a discarded value. Parts nested deeper than any report are dropped, so that
/// recursion ends.
Json parse(const std::string& content) {
  constexpr int deepest = 64;
  const auto keep = [](int depth, Json::parse_event_t, Json&) { return depth < deepest; };
  return Json::parse(content, keep, false);
}

std::string read_all(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string content(std::size_t{16} << 20, '\0');  // more is no report
  file.read(content.data(), static_cast<std::streamsize>(content.size()));
  content.resize(static_cast<std::size_t>(file.gcount()));
  return content;
}

ErrorFile interpret(const std::string& content) {
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
  return result;
}

}  // namespace

std::optional<ErrorFile> read_error_file(const std::filesystem::path& path) {
  std::error_code nothing;
  if (path.empty() || !std::filesystem::is_regular_file(path, nothing)) return std::nullopt;
  return interpret(read_all(path));
}

}  // namespace shampoo::launcher
