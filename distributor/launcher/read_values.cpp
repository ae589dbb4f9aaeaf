// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/read_values.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstring>
#include <optional>

namespace shampoo::launcher {
namespace {

[[noreturn]] void refuse(const FlagValue& value, const std::string& wanted) {
  throw UsageError(value.source + " must be " + wanted + ", not '" + value.text + "'");
}

template <typename Number>
std::optional<Number> number(std::string_view text) {
  Number result{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, result);
  if (error != std::errc() || stop != end) return std::nullopt;
  return result;
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> pieces;
  for (;;) {
    const std::size_t end = text.find(at);
    pieces.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return pieces;
    text.remove_prefix(end + 1);
  }
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

std::optional<Streams> streams(std::string_view text) {
  if (text.size() != 1 || text[0] < '0' || text[0] > '3') return std::nullopt;
  const int bits = text[0] - '0';
  return Streams{(bits & 1) != 0, (bits & 2) != 0};
}

}  // namespace

int whole_number(const FlagValue& value, int least, int most) {
  const auto result = number<int>(trimmed(value.text));
  if (!result || *result < least || *result > most) {
    refuse(value, "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  }
  return *result;
}

std::chrono::milliseconds seconds(const FlagValue& value) {
  const auto result = number<double>(trimmed(value.text));
  constexpr double kYear = 365.0 * 86'400.0;
  if (!result || !(*result >= 0) || *result > kYear) {
    refuse(value, "a number of seconds, 0 to a year");
  }
  return std::chrono::milliseconds(std::llround(*result * 1000.0));
}

std::vector<std::string> parts(const FlagValue& value) {
  std::vector<std::string> result;
  if (value.text.empty()) return result;
  for (const std::string_view part : split(value.text, ',')) {
    if (trimmed(part).empty()) refuse(value, "a list with commas between its parts");
    result.emplace_back(trimmed(part));
  }
  return result;
}

std::set<int> local_ranks(const FlagValue& value) {
  std::set<int> result;
  for (const std::string& part : parts(value)) {
    const auto local_rank = number<int>(part);
    if (!local_rank || *local_rank < 0) refuse(value, "local ranks with commas between them");
    result.insert(*local_rank);
  }
  return result;
}

StreamChoice stream_choice(const FlagValue& value) {
  if (const auto all = streams(trimmed(value.text))) return {.all = *all, .by_local_rank = {}};
  StreamChoice choice;
  for (const std::string_view entry : split(value.text, ',')) {
    const auto pair = split(entry, ':');
    const auto local_rank = number<int>(trimmed(pair.front()));
    const auto which = streams(trimmed(pair.back()));
    if (pair.size() != 2 || !local_rank || *local_rank < 0 || !which) {
      refuse(value, "0, 1, 2, 3, or such by local rank as in 0:3,12:1");
    }
    choice.by_local_rank[*local_rank] = *which;
  }
  return choice;
}

std::vector<int> signal_numbers(const FlagValue& value) {
  std::vector<int> signals;
  for (const std::string& part : parts(value)) {
    int signal = 1;
    while (signal < SIGRTMIN && signal_name(signal) != part) ++signal;
    if (signal >= SIGRTMIN) refuse(value, "names of signals such as SIGTERM,SIGUSR1");
    if (signal == SIGKILL || signal == SIGSTOP || signal == SIGCHLD) {
      throw UsageError(value.source + ": " + part + " cannot be handled");
    }
    if (std::ranges::find(signals, signal) == signals.end()) signals.push_back(signal);
  }
  return signals;
}

NodeRange node_range(const FlagValue& value) {
  const auto bounds = split(value.text, ':');
  const auto least = number<int>(trimmed(bounds.front()));
  const auto most = number<int>(trimmed(bounds.back()));
  if (bounds.size() > 2 || !least || !most || *least < 1 || *most < *least || *most > 65'535) {
    refuse(value, "N or MIN:MAX with 1 <= MIN <= MAX <= 65535");
  }
  return {*least, *most};
}

Endpoint endpoint(const FlagValue& value) {
  std::string_view text = trimmed(value.text);
  Endpoint result;
  const std::size_t colon = text.rfind(':');
  const std::size_t bracket = text.rfind(']');
  const bool bare_ipv6 = bracket == std::string_view::npos && text.find(':') != colon;
  if (colon != std::string_view::npos && !bare_ipv6 &&
      (bracket == std::string_view::npos || colon > bracket)) {
    const auto port = number<std::uint16_t>(text.substr(colon + 1));
    if (!port) refuse(value, "HOST or HOST:PORT with a port from 0 to 65535");
    result.port = *port;
    result.has_port = true;
    text = text.substr(0, colon);
  }
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  if (text.find_first_of(" []/,@") != std::string_view::npos) refuse(value, "HOST or HOST:PORT");
  result.host = text;
  return result;
}

std::map<std::string, FlagValue> settings(const FlagValue& value) {
  std::map<std::string, FlagValue> result;
  if (trimmed(value.text).empty()) return result;
  for (const std::string_view entry : split(value.text, ',')) {
    const std::size_t equals = entry.find('=');
    const std::string key(trimmed(entry.substr(0, equals)));
    if (equals == std::string_view::npos || key.empty() ||
        trimmed(entry.substr(equals + 1)).empty()) {
      refuse(value, "KEY=VALUE,KEY=VALUE with a value for every key");
    }
    result[key] = {std::string(trimmed(entry.substr(equals + 1))), value.source + ", " + key};
  }
  return result;
}

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? "signal " + std::to_string(signal) : "SIG" + std::string(name);
}

}  // namespace shampoo::launcher
