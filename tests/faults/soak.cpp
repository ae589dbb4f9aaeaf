// SPDX-License-Identifier: Apache-2.0
// Kills random ranks of launched jobs at random times. Each job starts again from its first step
// and must end with the bits of an undisturbed one.
//   soak [--kills 50] [--seed 1]
// Ends with 0 if all did, and if four kills of five hit a running step: gradients, their mean, or
// step().
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>

#include "tests/faults/soak_job.h"

namespace {

using namespace shampoo::test;

struct Options {
  int kills = 50;
  unsigned seed = 1;
};

Options read_options(int count, char** words) {
  Options options;
  for (int i = 1; i < count; i += 2) {
    const std::string name = words[i];
    if (i + 1 == count || (name != "--kills" && name != "--seed"))
      throw std::invalid_argument("usage: soak [--kills N] [--seed S]");
    const int value = std::stoi(words[i + 1]);
    if (name == "--kills") options.kills = value;
    if (name == "--seed") options.seed = static_cast<unsigned>(value);
  }
  return options;
}

/// An undisturbed run.
struct Reference {
  std::uint64_t checksum = 0;
  double seconds = 0;  ///< with what comes before and after the training
};

Reference undisturbed(int ranks) {
  std::mt19937_64 unused;
  const auto begin = std::chrono::steady_clock::now();
  const JobEnd end = run_job(ranks, 0, 0, unused);
  if (end.code != 0 || !end.checksum) throw std::runtime_error("undisturbed run: " + end.output);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::printf("soak: %d ranks undisturbed: checksum %016llx, %.1f s\n", ranks,
              static_cast<unsigned long long>(*end.checksum), seconds.count());
  return {*end.checksum, seconds.count()};
}

class Soak {
 public:
  explicit Soak(const Options& options) : options_(options), random_(options.seed) {}

  int run() {
    for (const int ranks : {2, 3}) references_[ranks] = undisturbed(ranks);
    while (kills_ < options_.kills && failures_ < 3) run_one();
    return report();
  }

 private:
  void run_one() {
    const int ranks = std::uniform_int_distribution(2, 3)(random_);
    const int kills =
        std::min(std::uniform_int_distribution(1, 5)(random_), options_.kills - kills_);
    const Reference& reference = references_.at(ranks);
    const JobEnd end = run_job(ranks, kills, reference.seconds * 0.8, random_);
    ++jobs_;
    kills_ += end.kills();
    for (std::size_t p = 0; p < hits_.size(); ++p) hits_[p] += end.hits[p];
    const bool same = end.code == 0 && end.checksum == reference.checksum && end.left_nothing;
    if (same) return;
    ++failures_;
    std::printf("soak: job %d FAILED: %d ranks, %d kills, code %d, checksum %s, %s\n%s\n", jobs_,
                ranks, end.kills(), end.code, end.checksum ? "differs" : "missing",
                end.left_nothing ? "no process left" : "processes LEFT", end.output.c_str());
  }

  int report() const {
    int in_step = 0, in_running_step = 0;
    std::string where;
    for (std::size_t p = 0; p < hits_.size(); ++p) {
      const auto phase = static_cast<Phase>(p);
      if (hits_[p] > 0) where += ", " + name_of(phase) + " " + std::to_string(hits_[p]);
      if (phase >= Phase::preparing && phase <= Phase::applying) in_step += hits_[p];
      if (phase >= Phase::gradients && phase <= Phase::applying) in_running_step += hits_[p];
    }
    std::printf(
        "row 14: seed %u, %d kills in %d jobs%s; %d in a running step, %d of them in step(); "
        "%d of %d jobs ended with the bits of the undisturbed run and left nothing\n",
        options_.seed, kills_, jobs_, where.c_str(), in_running_step, in_step, jobs_ - failures_,
        jobs_);
    return failures_ == 0 && kills_ >= options_.kills && in_running_step * 5 >= kills_ * 4 ? 0 : 1;
  }

  Options options_;
  std::mt19937_64 random_;
  std::map<int, Reference> references_;
  int kills_ = 0, jobs_ = 0, failures_ = 0;
  std::array<int, phase_names.size()> hits_ = {};
};

}  // namespace

int main(int count, char** words) {
  try {
    return Soak(read_options(count, words)).run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "soak: %s\n", error.what());
    return 2;
  }
}
