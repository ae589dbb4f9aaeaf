// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/progress.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <new>
#include <stdexcept>

namespace shampoo::test {

Phase phase_of(const std::string& name) {
  const auto* const found = std::ranges::find(phase_names, name);
  if (found == phase_names.end()) throw std::invalid_argument("no such phase: " + name);
  return static_cast<Phase>(found - phase_names.begin());
}

ProgressPage::ProgressPage(const std::string& path) {
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  const bool made = file >= 0 && ftruncate(file, sizeof(Words)) == 0;
  void* const memory =
      made ? mmap(nullptr, sizeof(Words), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  if (file >= 0) close(file);
  if (memory == MAP_FAILED) throw std::runtime_error("no page for progress at " + path);
  words_ = new (memory) Words{};
  enter(Phase::joining, 0);
  words_->process = getpid();
}

ProgressPage::~ProgressPage() { munmap(words_, sizeof(Words)); }

void ProgressPage::enter(Phase phase, int step) {
  words_->since = std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  words_->step = step;
  words_->phase = static_cast<std::int32_t>(phase);
}

void ProgressPage::end(std::uint64_t checksum) {
  words_->checksum = checksum;
  enter(Phase::ended, words_->step);
}

std::optional<Progress> read_progress(const std::string& path) {
  ProgressPage::Words words{};
  std::ifstream file(path, std::ios::binary);
  if (!file.read(reinterpret_cast<char*>(&words), sizeof(words)) || words.process == 0) return {};
  return Progress{.process = words.process,
                  .step = words.step,
                  .phase = static_cast<Phase>(words.phase.load()),
                  .checksum = words.checksum,
                  .since = words.since};
}

std::string page_path(const std::string& folder, int rank, int restarts) {
  return folder + "/" + std::to_string(rank) + "-" + std::to_string(restarts);
}

}  // namespace shampoo::test
