// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/command_line/parse_values.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <csignal>
#include <optional>

#include "distributor/launcher/signal_queue.h"

namespace shampoo::launcher {
namespace {

template <typename Number>
std::optional<Number> number(std::string_view text) {
  Number result{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, result);
  if (error != std::errc() || stop != end) return std::nullopt;
  return result;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

/// Without surrounding blanks; "" has no parts.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!trimmed(text).empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.push_back(trimmed(text.substr(0, end)));
    if (end + 1 == text.size()) parts.emplace_back();
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::optional<Streams> streams(std::string_view text) {
  if (text.size() != 1 || text[0] < '0' || text[0] > '3') return std::nullopt;
  const int bits = text[0] - '0';
  return Streams{(bits & 1) != 0, (bits & 2) != 0};
}

bool can_be_forwarded(int signal) {
  constexpr std::array unusable{SIGKILL, SIGSTOP, SIGCHLD, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
  return std::ranges::find(unusable, signal) == unusable.end();
}

}  // namespace

int parse_number(std::string_view text, int least, int most) {
  const auto result = number<int>(trimmed(text));
  if (!result || *result < least || *result > most)
    throw InvalidValue("a whole number from " + std::to_string(least) + " to " +
                       std::to_string(most));
  return *result;
}

std::chrono::milliseconds parse_seconds(std::string_view text) {
  constexpr double year = 365.0 * 86'400.0;
  const auto result = number<double>(trimmed(text));
  if (!result || !(*result >= 0) || *result > year)
    throw InvalidValue("a number of seconds, 0 to a year");
  return std::chrono::milliseconds(std::llround(*result * 1000.0));
}

bool parse_bool(std::string_view text) {
  if (text == "1" || text == "true" || text == "True") return true;
  if (text == "0" || text == "false" || text == "False") return false;
  throw InvalidValue("0 or 1");
}

std::set<int> parse_local_ranks(std::string_view text) {
  std::set<int> result;
  for (const std::string_view part : split(text, ',')) {
    const auto local_rank = number<int>(part);
    if (!local_rank || *local_rank < 0) throw InvalidValue("local ranks separated by commas");
    result.insert(*local_rank);
  }
  return result;
}

StreamSelection parse_streams(std::string_view text) {
  if (const auto all = streams(trimmed(text))) return {.all = *all, .by_local_rank = {}};
  StreamSelection selection;
  for (const std::string_view entry : split(text, ',')) {
    const auto pair = split(entry, ':');
    const auto local_rank = pair.size() == 2 ? number<int>(pair[0]) : std::nullopt;
    const auto which = pair.size() == 2 ? streams(pair[1]) : std::nullopt;
    if (!local_rank || *local_rank < 0 || !which)
      throw InvalidValue("0, 1, 2, 3, or such by local rank as in 0:3,12:1");
    selection.by_local_rank[*local_rank] = *which;
  }
  return selection;
}

std::vector<int> parse_signals(std::string_view text) {
  std::vector<int> signals;
  for (const std::string_view part : split(text, ',')) {
    int signal = 1;
    while (signal < SIGRTMIN && signal_name(signal) != part) ++signal;
    if (signal >= SIGRTMIN || !can_be_forwarded(signal))
      throw InvalidValue("names of signals that can be forwarded, such as SIGTERM,SIGUSR1");
    if (std::ranges::find(signals, signal) == signals.end()) signals.push_back(signal);
  }
  return signals;
}

int parse_nodes(std::string_view text) {
  constexpr int most_nodes = 65'535;
  const std::size_t colon = std::min(text.find(':'), text.size());
  const int least = parse_number(text.substr(0, colon), 1, most_nodes);
  if (colon < text.size() && parse_number(text.substr(colon + 1), least, most_nodes) != least)
    throw Unsupported(
        "the number of nodes is fixed; for a range start the trainer with torchrun, under which it "
        "runs as well");
  return least;
}

Endpoint parse_endpoint(std::string_view text) {
  text = trimmed(text);
  Endpoint result;
  const std::size_t colon = text.rfind(':');
  const std::size_t bracket = text.rfind(']');
  const bool bare_ipv6 = bracket == std::string_view::npos && text.find(':') != colon;
  if (colon != std::string_view::npos && !bare_ipv6 &&
      (bracket == std::string_view::npos || colon > bracket)) {
    const auto port = number<std::uint16_t>(text.substr(colon + 1));
    if (!port) throw InvalidValue("HOST or HOST:PORT with a port from 0 to 65535");
    result.port = *port;
    result.has_port = true;
    text = text.substr(0, colon);
  }
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  if (text.find_first_of(" []/,@") != std::string_view::npos)
    throw InvalidValue("HOST or HOST:PORT");
  result.host = text;
  return result;
}

std::map<std::string, std::string> parse_settings(std::string_view text) {
  std::map<std::string, std::string> result;
  for (const std::string_view entry : split(text, ',')) {
    const std::size_t equals = entry.find('=');
    const std::string_view key = trimmed(entry.substr(0, equals));
    const std::string_view value =
        equals == std::string_view::npos ? "" : trimmed(entry.substr(equals + 1));
    if (key.empty() || value.empty())
      throw InvalidValue("KEY=VALUE,KEY=VALUE with a value for every key");
    result.insert_or_assign(std::string(key), std::string(value));
  }
  return result;
}

}  // namespace shampoo::launcher
