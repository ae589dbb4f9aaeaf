// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/output/failure_summary.h"

#include <algorithm>
#include <array>
#include <ctime>

#include "distributor/launcher/signal_queue.h"

namespace shampoo::launcher {
namespace {

constexpr std::size_t columns = 60;

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
  const std::string file =
      failure.error && !failure.error_file.empty() ? failure.error_file : "<N/A>";
  const std::string& traceback = failure.error ? failure.error->traceback : "";
  return "[" + std::to_string(index) + "]:\n" +                           //
         "  time      : " + local_time(failure.when()) + "\n" +           //
         "  host      : " + failure.host + "\n" +                         //
         "  rank      : " + std::to_string(failure.rank) +                //
         " (local_rank: " + std::to_string(failure.local_rank) + ")\n" +  //
         "  exitcode  : " + std::to_string(failure.exit_code) +           //
         " (pid: " + std::to_string(failure.pid) + ")" + signal + "\n" +  //
         "  error_file: " + file + "\n" +                                 //
         (traceback.empty() || failure.message() == traceback
              ? ""
              : "  message   : " + indented(failure.message()) + "\n") +  //
         "  traceback : " +
         indented(traceback.empty() ? failure.message() : traceback);
}

}  // namespace

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
    const std::string text = describe(index, failures[index]) + "\n";
    (&failures[index] == &root ? root_text : others) += text;
  }
  if (others.empty()) others = "  <NO_OTHER_FAILURES>\n";
  const std::string border = std::string(columns, '=') + "\n";
  const std::string line = std::string(columns, '-') + "\n";
  return border + program + " FAILED\n" + line + "Failures:\n" + others + line +
         "Root Cause (first observed failure):\n" + root_text + border;
}

int shell_exit_code(const WorkerFailure& failure) {
  return failure.exit_code < 0 ? 128 - failure.exit_code : failure.exit_code;
}

}  // namespace shampoo::launcher
