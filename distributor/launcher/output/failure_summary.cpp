// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/output/failure_summary.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>

#include "distributor/launcher/signal_queue.h"

namespace shampoo::launcher {
namespace {

using Json = nlohmann::json;

std::string read_all(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string content(std::size_t{16} << 20, '\0');  // more is no report
  file.read(content.data(), static_cast<std::streamsize>(content.size()));
  content.resize(static_cast<std::size_t>(file.gcount()));
  return content;
}

/// Seconds since 1970, as a number or a string of digits.
std::optional<std::chrono::system_clock::time_point> time(const Json& value) {
  double seconds = -1;
  if (value.is_number()) {
    seconds = value.get<double>();
  } else if (value.is_string()) {
    const auto& digits = value.get_ref<const std::string&>();
    std::from_chars(digits.data(), digits.data() + digits.size(), seconds);
  }
  constexpr double most_seconds = 9e9;  // in nanoseconds: what the clock's 64 bits hold
  if (!(seconds >= 0) || seconds > most_seconds) return std::nullopt;
  return std::chrono::system_clock::time_point(
      std::chrono::duration_cast<std::chrono::system_clock::duration>(
          std::chrono::duration<double>(seconds)));
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
    result.message = content.empty() ? "the error file is empty"
                                     : "the error file cannot be read: " + content.substr(0, 200);
  }
  return result;
}

std::string local_time(std::chrono::system_clock::time_point when) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(when);
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d_%H:%M:%S", &parts);
  return text.data();
}

std::string indented(const std::string& text) {
  std::string result;
  for (const char letter : text) {
    result += letter;
    if (letter == '\n') result += "  ";
  }
  return result;
}

std::string describe(std::size_t index, const WorkerFailure& failure) {
  const std::string signal =
      failure.exit_code < 0 ? " (" + signal_name(-failure.exit_code) + ")" : "";
  const std::string traceback = failure.error ? failure.error->traceback : "";
  const std::string message = failure.message();
  std::ostringstream text;
  text << "[" << index << "]:\n  time      : " << local_time(failure.when())
       << "\n  host      : " << failure.host << "\n  rank      : " << failure.rank
       << " (local_rank: " << failure.local_rank << ")\n  exitcode  : " << failure.exit_code
       << " (pid: " << failure.pid << ")" << signal << "\n  error_file: "
       << (failure.error && !failure.error_file.empty() ? failure.error_file : "<N/A>");
  if (!traceback.empty() && message != traceback) text << "\n  message   : " << indented(message);
  text << "\n  traceback : " << indented(traceback.empty() ? message : traceback) << "\n";
  return text.str();
}

}  // namespace

std::optional<ErrorFile> read_error_file(const std::filesystem::path& path) {
  std::error_code ignored;
  if (path.empty() || !std::filesystem::is_regular_file(path, ignored)) return std::nullopt;
  return interpret(read_all(path));
}

std::chrono::system_clock::time_point WorkerFailure::when() const {
  return error && error->time ? *error->time : time;
}

/// The file's time may lack the part of a second.
std::chrono::system_clock::time_point WorkerFailure::latest() const {
  return error && error->time ? std::min(time, *error->time + std::chrono::seconds(1)) : time;
}

std::string WorkerFailure::message() const {
  if (error && !error->message.empty()) return error->message;
  if (error && !error->traceback.empty()) return error->traceback;
  if (exit_code < 0) {
    return "Signal " + std::to_string(-exit_code) + " (" + signal_name(-exit_code) +
           ") received by PID " + std::to_string(pid);
  }
  return "the worker wrote no error file (TORCHELASTIC_ERROR_FILE)";
}

const WorkerFailure& root_cause(std::span<const WorkerFailure> failures) {
  return *std::ranges::min_element(failures, {}, &WorkerFailure::latest);
}

std::string failure_summary(const std::string& program, std::span<const WorkerFailure> failures) {
  const WorkerFailure& root = root_cause(failures);
  std::string root_text, others;
  for (std::size_t index = 0; index < failures.size(); ++index) {
    const std::string text = describe(index, failures[index]);
    (&failures[index] == &root ? root_text : others) += text;
  }
  if (others.empty()) others = "  <NO_OTHER_FAILURES>\n";
  const std::string border = std::string(60, '=') + "\n", line = std::string(60, '-') + "\n";
  return border + program + " FAILED\n" + line + "Failures:\n" + others + line +
         "Root Cause (first observed failure):\n" + root_text + border;
}

int shell_exit_code(const WorkerFailure& failure) {
  return failure.exit_code < 0 ? 128 - failure.exit_code : failure.exit_code;
}

}  // namespace shampoo::launcher
