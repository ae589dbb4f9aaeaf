// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/descendants.h"

#include <dirent.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <system_error>
#include <unordered_map>

namespace shampoo::launcher {

namespace {

struct Process {
  Descendant itself;
  pid_t parent = 0;
};

/// /proc/<pid>/stat: "pid (name) state parent group ...", where the name may hold anything.
bool read_process(pid_t pid, Process& process) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line, '\0');
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return false;
  std::istringstream rest(line.substr(name_end + 1));
  char state = 0;
  if (!(rest >> state >> process.parent >> process.itself.group)) return false;
  process.itself.pid = pid;
  process.itself.stopped = state == 'T' || state == 't';
  return true;
}

std::unordered_multimap<pid_t, Process> processes_by_parent() {
  std::unordered_multimap<pid_t, Process> result;
  const auto close = [](DIR* folder) { closedir(folder); };
  const std::unique_ptr<DIR, decltype(close)> folder(opendir("/proc"), close);
  if (!folder) return result;
  while (const dirent* entry = readdir(folder.get())) {
    pid_t pid = 0;
    const char* end = entry->d_name + std::strlen(entry->d_name);
    if (std::from_chars(entry->d_name, end, pid).ptr != end) continue;
    Process process;
    if (read_process(pid, process)) result.emplace(process.parent, process);
  }
  return result;
}

}  // namespace

std::vector<Descendant> descendants_of(pid_t root, const std::set<pid_t>& spared) {
  const auto processes = processes_by_parent();
  std::vector<Descendant> result;
  std::vector<pid_t> parents{root};
  while (!parents.empty()) {
    const auto [begin, end] = processes.equal_range(parents.back());
    parents.pop_back();
    for (auto child = begin; child != end; ++child) {
      if (spared.contains(child->second.itself.pid)) continue;
      parents.push_back(child->second.itself.pid);
      result.push_back(child->second.itself);
    }
  }
  return result;
}

void adopt_orphans() {
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
    throw std::system_error(errno, std::generic_category(), "prctl(PR_SET_CHILD_SUBREAPER)");
}

}  // namespace shampoo::launcher
