// SPDX-License-Identifier: Apache-2.0
#include "distributor/system/process_identity.h"

#include <unistd.h>

#include <array>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include "grouping/hash.h"

namespace shampoo {

namespace {

/// What proc(5) says of a process; empty if there is none.
struct Status {
  char state = 0;
  std::uint64_t start = 0;
};

std::optional<Status> status_of(const std::string& process) {
  std::ifstream file("/proc/" + process + "/stat");
  // The name, in parentheses, may contain any character.
  std::string line;
  if (!std::getline(file, line, '\0') || line.rfind(')') == std::string::npos) return std::nullopt;
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  Status status;
  fields >> status.state;
  constexpr int between = 18;  // fields 4 to 21
  std::string skipped;
  for (int i = 0; i < between; ++i) fields >> skipped;
  fields >> status.start;
  return fields ? std::optional(status) : std::nullopt;
}

std::uint64_t this_machine() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::array<char, 64> ids{};
  if (boot.empty() || readlink("/proc/self/ns/pid", ids.data(), ids.size() - 1) <= 0) return 0;
  boot += ids.data();
  return grouping::hash(boot);
}

}  // namespace

ProcessIdentity this_process() {
  const std::optional<Status> status = status_of("self");
  return {
      .machine = status ? this_machine() : 0, .id = getpid(), .start = status ? status->start : 0};
}

bool has_ended(const ProcessIdentity& identity) {
  if (identity.machine == 0 || identity.machine != this_machine()) return false;
  const std::optional<Status> status = status_of(std::to_string(identity.id));
  return !status || status->state == 'Z' || status->state == 'X' || status->start != identity.start;
}

}  // namespace shampoo
