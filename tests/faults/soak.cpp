// SPDX-License-Identifier: Apache-2.0
// Kills random ranks of launched jobs at random times. Each job starts again, from its first step
// or from its latest checkpoint, and must end with the bits of an undisturbed one.
//   soak [--kills 50] [--seed 1] [--checkpoints no] [--steps 25] [--kills-per-job 0]
// With 0 kills per job, each has a few. With checkpoints, jobs have 2 ranks; every other one saves
// while it trains. Kills go on, up to
// twice as many, until four fifths of the number have hit a running step (gradients, their mean, or
// step()) or a save, and a job has gone on from a checkpoint. Ends with 0 if that came and all jobs
// had those bits.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <numeric>
#include <stdexcept>
#include <string>

#include "tests/faults/soak_job.h"

namespace {

using namespace shampoo::test;

struct Options {
  int kills = 50;
  unsigned seed = 1;
  bool checkpoints = false;
  int steps = 25;
  int kills_per_job = 0;  ///< 0: a few
};

Options read_options(int count, char** words) {
  const std::string usage =
      "usage: soak [--kills N] [--seed S] [--checkpoints yes|no] [--steps N] [--kills-per-job N]";
  Options options;
  for (int i = 1; i < count; i += 2) {
    if (i + 1 == count) throw std::invalid_argument(usage);
    const std::string name = words[i], value = words[i + 1];
    if (name == "--kills")
      options.kills = std::stoi(value);
    else if (name == "--seed")
      options.seed = static_cast<unsigned>(std::stoul(value));
    else if (name == "--steps")
      options.steps = std::stoi(value);
    else if (name == "--kills-per-job")
      options.kills_per_job = std::stoi(value);
    else if (name == "--checkpoints" && (value == "yes" || value == "no"))
      options.checkpoints = value == "yes";
    else
      throw std::invalid_argument(usage);
  }
  return options;
}

/// An undisturbed run.
struct Reference {
  std::uint64_t checksum = 0;
  double seconds = 0;  ///< with what comes before and after the training
};

Reference undisturbed(int ranks, int steps, Saves saves = Saves::none) {
  std::mt19937_64 unused;
  const auto begin = std::chrono::steady_clock::now();
  const JobEnd end = run_job({.ranks = ranks, .steps = steps, .saves = saves}, unused);
  if (end.code != 0 || !end.checksum || !end.good_checkpoints)
    throw std::runtime_error("undisturbed run: " + end.output);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::printf("soak: %d ranks undisturbed%s: checksum %016llx, %.1f s\n", ranks,
              saves == Saves::none ? "" : ", with checkpoints",
              static_cast<unsigned long long>(*end.checksum), seconds.count());
  return {*end.checksum, seconds.count()};
}

class Soak {
 public:
  explicit Soak(const Options& options) : options_(options), random_(options.seed) {}

  int run() {
    references_[2] = undisturbed(2, options_.steps);
    if (options_.checkpoints)
      references_[2].seconds = undisturbed(2, options_.steps, Saves::waiting).seconds;
    else
      references_[3] = undisturbed(3, options_.steps);
    while (!enough() && kills_ < 2 * options_.kills && failures_ < 3) run_one();
    return report();
  }

 private:
  JobPlan next_plan() {
    const int left = std::max(options_.kills - kills_, 1);
    const auto draw = [&](int least, int most) {
      return std::uniform_int_distribution(least, most)(random_);
    };
    const auto draw_kills = [&](int least, int most) {
      return std::min(options_.kills_per_job > 0 ? options_.kills_per_job : draw(least, most),
                      left);
    };
    if (!options_.checkpoints) {
      const int ranks = draw(2, 3);
      return {.ranks = ranks,
              .steps = options_.steps,
              .kills = draw_kills(1, 5),
              .longest_wait = references_.at(ranks).seconds * 0.8};
    }
    // What a job has behind it stays, but for the steps since the last save, so that its kills
    // share one training.
    const int kills = draw_kills(3, 6);
    return {.ranks = 2,
            .steps = options_.steps,
            .kills = kills,
            .longest_wait = references_.at(2).seconds * 1.2 *
                            (1.0 / kills + 1.0 * steps_between_saves / options_.steps),
            .saves = jobs_ % 2 == 0 ? Saves::waiting : Saves::threaded};
  }

  void run_one() {
    const JobPlan plan = next_plan();
    const JobEnd end = run_job(plan, random_);
    ++jobs_;
    kills_ += end.kills();
    resumed_ += end.resumed;
    for (std::size_t p = 0; p < hits_.size(); ++p) hits_[p] += end.hits[p];
    const bool same = end.checksum == references_.at(plan.ranks).checksum;
    if (same && end.code == 0 && end.left_nothing && end.good_checkpoints) return;
    ++failures_;
    std::printf("soak: job %d FAILED: %d ranks, %d kills, code %d, checksum %s, %s, %s\n%s\n",
                jobs_, plan.ranks, end.kills(), end.code,
                end.checksum ? same ? "right" : "differs" : "missing",
                end.left_nothing ? "no process left" : "processes LEFT",
                end.good_checkpoints ? "good checkpoints" : "BAD checkpoints", end.output.c_str());
  }

  int hits(Phase first, Phase last) const {
    const auto begin = hits_.begin();
    return std::accumulate(begin + static_cast<int>(first), begin + static_cast<int>(last) + 1, 0);
  }

  /// So many kills, four fifths of them in a running step or a save, and a start from a checkpoint.
  bool enough() const {
    const int meant = hits(Phase::gradients, Phase::applying) + hits(Phase::saving, Phase::saving);
    const bool went_on = !options_.checkpoints || resumed_ > 0;
    return went_on && kills_ >= options_.kills && meant * 5 >= options_.kills * 4;
  }

  int report() const {
    std::string where;
    for (std::size_t p = 0; p < hits_.size(); ++p)
      if (hits_[p] > 0)
        where += ", " + name_of(static_cast<Phase>(p)) + " " + std::to_string(hits_[p]);
    const int in_step = hits(Phase::gradients, Phase::applying);
    const int in_save = hits(Phase::saving, Phase::saving);
    std::string text = std::to_string(in_step) + " in a running step, " +
                       std::to_string(hits(Phase::preparing, Phase::applying)) +
                       " of them in step()";
    if (options_.checkpoints)
      text += ", " + std::to_string(in_save) + " in a save; " + std::to_string(resumed_) +
              " starts went on from a checkpoint";
    std::printf(
        "row 14: seed %u, %d kills in %d jobs of %d steps%s; %s; "
        "%d of %d jobs ended with the bits of the undisturbed run and left nothing\n",
        options_.seed, kills_, jobs_, options_.steps, where.c_str(), text.c_str(),
        jobs_ - failures_, jobs_);
    return failures_ == 0 && enough() ? 0 : 1;
  }

  Options options_;
  std::mt19937_64 random_;
  std::map<int, Reference> references_;  ///< by ranks
  int kills_ = 0, jobs_ = 0, failures_ = 0, resumed_ = 0;
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
