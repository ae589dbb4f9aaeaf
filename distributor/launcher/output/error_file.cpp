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

std::string read_all(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string content(std::size_t{16} << 20, '\0');  // more is no report
  file.read(content.data(), static_cast<std::streamsize>(content.size()));
  content.resize(static_cast<std::size_t>(file.gcount()));
  return content;
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

/// Python's record has an object with details as its message, a short form the text itself.
ErrorFile interpret(const std::string& content) {
  ErrorFile result;
  try {
    const Json json = Json::parse(content);
    const Json& message = json.at("message");
    const bool has_details = message.is_object();
    const Json& details = has_details ? message.at("extraInfo") : json;
    result.message = (has_details ? message.at("message") : message).get<std::string>();
    result.traceback = details.value("py_callstack", "");
    result.time = time(details.value("timestamp", Json()));
  } catch (const Json::exception&) {
    result = {};
    result.broken = true;
    result.message = content.empty() ? "the error file is empty"
                                     : "the error file cannot be read: " + content.substr(0, 200);
  }
  return result;
}

}  // namespace

std::optional<ErrorFile> read_error_file(const std::filesystem::path& path) {
  std::error_code ignored;
  if (path.empty() || !std::filesystem::is_regular_file(path, ignored)) return std::nullopt;
  return interpret(read_all(path));
}

}  // namespace shampoo::launcher
