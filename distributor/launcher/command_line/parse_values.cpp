// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/command_line/parse_values.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <csignal>
#include <filesystem>

#include "distributor/launcher/signal_queue.h"
#include "distributor/store/socket.h"

namespace shampoo::launcher {
namespace {

constexpr int most_workers = 65'535, most_nodes = 65'535;

template <typename Number>
std::optional<Number> number(std::string_view text) {
  Number result{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, result);
  if (error != std::errc() || stop != end) return std::nullopt;
  return result;
}

int local_rank(std::string_view text, const char* form) {
  const auto result = number<int>(text);
  if (!result || *result < 0) throw InvalidValue(form);
  return *result;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

/// Without surrounding blanks; "" has no parts.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  if (trimmed(text).empty()) return parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(trimmed(text.substr(0, end)));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

int count_gpus(const Environment& environment) {
  if (const auto visible = environment.find("CUDA_VISIBLE_DEVICES"); visible != environment.end()) {
    const auto entries = split(visible->second, ',');
    const auto end = std::ranges::find_if(
        entries, [](std::string_view entry) { return entry.empty() || entry == "-1"; });
    return static_cast<int>(end - entries.begin());
  }
  int count = 0;
  std::error_code nothing;
  for (const auto& file : std::filesystem::directory_iterator("/dev", nothing)) {
    const std::string name = file.path().filename();
    count += name.starts_with("nvidia") && number<unsigned>(name.substr(6)).has_value();
  }
  return count;
}

bool parse_bool(std::string_view text) {
  if (text == "1" || text == "true" || text == "True") return true;
  if (text == "0" || text == "false" || text == "False") return false;
  throw InvalidValue("0 or 1");
}

/// One of --rdzv-conf.
void read_setting(const std::string& key, std::string_view value, LaunchOptions& options) {
  constexpr std::array unused{"close_timeout", "read_timeout", "last_call_timeout", "rank",
                              "use_libuv"};
  if (key == "join_timeout" || key == "timeout") {
    options.times.join = parse_seconds(value);
  } else if (key == "keep_alive_interval" || key == "heartbeat_timeout") {
    options.times.heartbeat = parse_seconds(value);
    if (options.times.heartbeat.count() == 0)
      throw UsageError("--rdzv-conf, " + key + ": must be above 0");
  } else if (key == "keep_alive_max_attempt") {
    options.times.heartbeats_missed = parse_number(value, 1, 1000);
  } else if (key == "is_host") {
    options.is_host = parse_bool(value);
  } else if (std::ranges::find(unused, key) != unused.end()) {
    options.warnings.push_back("--rdzv-conf, " + key + " has no effect");
  } else if (key != "store_type") {
    throw UsageError("--rdzv-conf: there is no key " + key + "; see --help");
  } else if (value != "tcp") {
    throw UsageError("--rdzv-conf: store_type must be tcp");
  }
}

bool can_be_forwarded(int signal) {
  constexpr std::array unusable{SIGKILL, SIGSTOP, SIGCHLD, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
  return std::ranges::find(unusable, signal) == unusable.end();
}

}  // namespace

int count_processors() { return static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN))); }

int parse_number(std::string_view text, int least, int most) {
  const auto result = number<int>(trimmed(text));
  if (!result || *result < least || *result > most)
    throw InvalidValue("a whole number from " + std::to_string(least) + " to " +
                       std::to_string(most));
  return *result;
}

int parse_workers(std::string_view text, const Environment& environment) {
  if (text == "cpu") return count_processors();
  if (text == "gpu" || text == "auto") {
    const int gpus = count_gpus(environment);
    if (gpus > 0) return gpus;
    if (text == "auto") return count_processors();
    throw UsageError("--nproc-per-node=gpu, but this node shows no GPU");
  }
  if (text.find_first_not_of("-+0123456789 ") != std::string_view::npos)
    throw InvalidValue("auto, cpu, gpu or a number");
  return parse_number(text, 1, most_workers);
}

int parse_nodes(std::string_view text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const int least = parse_number(text.substr(0, colon), 1, most_nodes);
  if (colon < text.size() && parse_number(text.substr(colon + 1), least, most_nodes) != least)
    throw Unsupported(
        "the number of nodes is fixed; for a range start the trainer with torchrun, under which it "
        "runs as well");
  return least;
}

std::chrono::milliseconds parse_seconds(std::string_view text) {
  constexpr double year = 365.0 * 86'400.0;
  const auto result = number<double>(trimmed(text));
  if (!result || !(*result >= 0) || *result > year)
    throw InvalidValue("a number of seconds, 0 to a year");
  return std::chrono::milliseconds(std::llround(*result * 1000.0));
}

std::set<int> parse_local_ranks(std::string_view text) {
  std::set<int> result;
  for (const std::string_view part : split(text, ','))
    result.insert(local_rank(part, "local ranks separated by commas"));
  return result;
}

StreamSelection parse_streams(std::string_view text) {
  constexpr const char* form = "0, 1, 2, 3, or such by local rank as in 0:3,12:1";
  const auto streams = [](std::string_view digit) {
    if (digit.size() != 1 || digit[0] < '0' || digit[0] > '3') throw InvalidValue(form);
    const int bits = digit[0] - '0';
    return Streams{(bits & 1) != 0, (bits & 2) != 0};
  };
  const auto entries = split(text, ',');
  StreamSelection selection;
  if (entries.size() == 1 && entries[0].find(':') == std::string_view::npos) {
    selection.all = streams(entries[0]);
    return selection;
  }
  for (const std::string_view entry : entries) {
    const auto pair = split(entry, ':');
    if (pair.size() != 2) throw InvalidValue(form);
    selection.by_local_rank[local_rank(pair[0], form)] = streams(pair[1]);
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

Endpoint parse_endpoint(std::string_view text) {
  text = trimmed(text);
  Endpoint result;
  const std::size_t colon = text.rfind(':');
  const bool bare_ipv6 = !text.starts_with('[') && text.find(':') != colon;
  if (colon != std::string_view::npos && !bare_ipv6 && text.find(']', colon) == text.npos) {
    result.port = number<std::uint16_t>(text.substr(colon + 1));
    if (!result.port) throw InvalidValue("HOST or HOST:PORT with a port from 0 to 65535");
    text = text.substr(0, colon);
  }
  text = store::without_brackets(text);
  if (text.find_first_of(" []/,@") != std::string_view::npos)
    throw InvalidValue("HOST or HOST:PORT");
  result.host = text;
  return result;
}

void parse_rendezvous_settings(std::string_view text, LaunchOptions& options) {
  for (const std::string_view entry : split(text, ',')) {
    const auto pair = split(entry, '=');
    if (pair.size() != 2 || pair[0].empty() || pair[1].empty())
      throw InvalidValue("KEY=VALUE,KEY=VALUE with a value for every key");
    read_setting(std::string(pair[0]), pair[1], options);
  }
}

}  // namespace shampoo::launcher
