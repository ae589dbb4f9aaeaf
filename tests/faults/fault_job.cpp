// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/fault_job.h"

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace shampoo::test {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

void pause_shortly() { std::this_thread::sleep_for(5ms); }

JobFolder::~JobFolder() {
  for (const pid_t process : processes()) kill(process, SIGKILL);
}

std::optional<Progress> JobFolder::progress(int rank, int restarts) const {
  return read_progress(page_path(path_, rank, restarts));
}

bool JobFolder::reaches(int rank, int step, Phase phase) const {
  return comes_true(60s, [&] {
    const std::optional<Progress> now = progress(rank);
    return now && (now->step > step || (now->step == step && now->phase >= phase));
  });
}

std::vector<pid_t> JobFolder::processes() const {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    // By a stream: a process that ends in between is an error of the read.
    std::ostringstream words;
    words << std::ifstream(entry.path() / "cmdline", std::ios::binary).rdbuf();
    if (words.str().find(path_) != std::string::npos) found.push_back(std::stoi(name));
  }
  return found;
}

bool JobFolder::is_left_by_all() const {
  return comes_true(20s, [&] { return processes().empty(); });
}

FaultJob::FaultJob(const std::vector<std::string>& orders, Server server) : ranks_(size) {
  const int port = server == Server::test ? store_.port() : free_port();
  for (int r = 0; r < size; ++r) {
    std::vector<std::string> words{FAULT_TRAINER, "leash=yes", "progress=" + folder_.path()};
    words.insert(words.end(), orders.begin(), orders.end());
    ranks_[static_cast<std::size_t>(r)].process = std::make_unique<Process>(
        words, std::map<std::string, std::string>{
                   {"RANK", std::to_string(r)},
                   {"WORLD_SIZE", std::to_string(size)},
                   {"LOCAL_RANK", std::to_string(r)},
                   {"MASTER_ADDR", "127.0.0.1"},
                   {"MASTER_PORT", std::to_string(port)},
                   {"TORCHELASTIC_USE_AGENT_STORE", server == Server::test ? "True" : "False"}});
  }
}

bool FaultJob::have_ended(int exempt) {
  bool all = true;
  for (Rank& rank : ranks_) {
    if (rank.code < 0) {
      rank.code = rank.process->wait(0s);
      rank.end = Clock::now();
    }
    all = all && (rank.code >= 0 || &rank == &ranks_[0] + exempt);
  }
  return all;
}

std::string FaultJob::output(int rank) const {
  return ranks_[static_cast<std::size_t>(rank)].process->output();
}

double FaultJob::seconds(int from, int to) const {
  const std::chrono::nanoseconds since(folder_.progress(from).value_or(Progress{}).since);
  const auto end = ranks_[static_cast<std::size_t>(to)].end.time_since_epoch();
  return std::chrono::duration<double>(end - since).count();
}

}  // namespace shampoo::test
