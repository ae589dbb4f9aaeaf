// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace shampoo {

class ScheduleRule;

/// The kinds of schedules: options that a Schedule is made of. Values are those of torch's
/// schedulers, to the last bit where the C library's cos and pow are the same. Steps count from 0.
namespace schedules {

/// factor base in the steps before `steps`, base from there on (torch: ConstantLR).
struct Constant {
  double factor = 1.0 / 3;  ///< >= 2^-126
  std::int64_t steps = 5;   ///< >= 1
};

/// From start_factor base in step 0 to end_factor base in step `steps`, and from there on
/// (torch: LinearLR, but never below 0).
struct Linear {
  double start_factor = 1.0 / 3;  ///< >= 2^-126
  double end_factor = 1;          ///< >= 0
  std::int64_t steps = 5;         ///< >= 1
};

/// base (1 - step / steps)^power, and 0 from step `steps` on (torch: PolynomialLR).
struct Polynomial {
  std::int64_t steps = 5;  ///< >= 1
  double power = 1;        ///< > 0
};

/// base / sqrt(1 + step / steps), [Vaswani 2017] behind a rise of as many steps: with it, the
/// square root of all steps.
struct InverseSquareRoot {
  std::int64_t steps = 1;  ///< >= 1
};

/// Times `factor` in every step (torch: ExponentialLR).
struct Exponential {
  double factor = 0.99;  ///< > 0
};

/// Times `factor` in every so many steps (torch: StepLR).
struct Step {
  std::int64_t every = 1;  ///< >= 1
  double factor = 0.1;     ///< > 0
};

/// Times `factor` in each of these steps (torch: MultiStepLR).
struct Milestones {
  std::vector<std::int64_t> steps = {};  ///< >= 0, in any order; one may be there several times
  double factor = 0.1;                   ///< > 0
};

/// minimum + (base - minimum) (1 + cos(pi step / steps)) / 2: the minimum in step `steps`, from
/// where it rises again, to base in step 2 `steps` (torch: CosineAnnealingLR).
struct Cosine {
  std::int64_t steps = 1;  ///< >= 1
  double minimum = 0;      ///< >= 0
};

/// Half a cosine from base to the minimum, again and again: over `first` steps, then over `factor`
/// times as many, ... (torch: CosineAnnealingWarmRestarts) [Loshchilov 2017].
struct WarmRestarts {
  std::int64_t first = 1;   ///< >= 1
  std::int64_t factor = 1;  ///< >= 1
  double minimum = 0;       ///< >= 0
};

/// Rises from base / start_divisor to base over `rise` of the steps, and falls to that start over
/// final_divisor, which stays from step `steps` - 1 on (torch: OneCycleLR with max_lr = base, and
/// an error in place of the end). [Smith 2018]
struct OneCycle {
  std::int64_t steps = 1;      ///< >= 1
  double rise = 0.3;           ///< in [0, 1]
  double start_divisor = 25;   ///< > 0
  double final_divisor = 1e4;  ///< > 0
  bool linear = false;         ///< straight lines in place of half cosines
  /// It falls to its start in as many steps as it rose, and only then to the end. `rise` must be at
  /// most 0.5.
  bool three_phases = false;
};

/// Rises from start_factor base to base, stays there, and falls to end_factor base, in straight
/// lines, so many steps each.
struct WarmUpStableDecay {
  std::int64_t warm_up = 0;   ///< >= 0
  std::int64_t stable = 0;    ///< >= 0
  std::int64_t decay = 1;     ///< >= 1
  double start_factor = 0.1;  ///< >= 2^-126
  double end_factor = 0;      ///< >= 0
};

/// factor(step) base (torch: LambdaLR). The function gives the same on all ranks, and in every run
/// that a checkpoint is loaded into. It may be asked for a step more than once.
struct Function {
  std::function<double(std::int64_t step)> factor;
};

/// Times factor(step) in every step but 0, and in that, too, behind another schedule of a Sequence
/// (torch: MultiplicativeLR). The same holds.
struct Product {
  std::function<double(std::int64_t step)> factor;
};

struct Sequence;
struct Chain;

}  // namespace schedules

/// Values of a rate over the steps 0, 1, ..., from a base that each group has of its own.
/// Immutable; copies share it. Each value is computed from that of the step before, as torch's
/// schedulers do, so one is a function of base and step alone. Constructors throw
/// std::invalid_argument that names the kind, the field and its range.
class Schedule {
 public:
  /// The base, in every step.
  Schedule();
  Schedule(const schedules::Constant& kind);
  Schedule(const schedules::Linear& kind);
  Schedule(const schedules::Polynomial& kind);
  Schedule(const schedules::InverseSquareRoot& kind);
  Schedule(const schedules::Exponential& kind);
  Schedule(const schedules::Step& kind);
  Schedule(const schedules::Milestones& kind);
  Schedule(const schedules::Cosine& kind);
  Schedule(const schedules::WarmRestarts& kind);
  Schedule(const schedules::OneCycle& kind);
  Schedule(const schedules::WarmUpStableDecay& kind);
  Schedule(schedules::Function kind);
  Schedule(schedules::Product kind);
  Schedule(const schedules::Sequence& kind);
  Schedule(const schedules::Chain& kind);
  /// A move copies, so that one that was moved from still has its kind.
  Schedule(const Schedule&) = default;
  Schedule& operator=(const Schedule&) = default;

  /// In a step >= 0. Goes through all steps before it.
  double value(double base, std::int64_t step) const;
  /// In the steps 0, ..., `steps` - 1, of which there may be none: the points of a chart.
  std::vector<double> values(double base, std::int64_t steps) const;
  /// Draws them into a PNG file, by the program gnuplot (Debian: gnuplot-nox). Throws
  /// std::invalid_argument unless base >= 0 and steps >= 1, and std::runtime_error where there is
  /// no gnuplot or it cannot write the file.
  void plot(const std::string& png, double base, std::int64_t steps) const;

  /// True for copies of one schedule.
  bool operator==(const Schedule& other) const = default;

 private:
  friend class ScheduleRule;
  std::shared_ptr<const ScheduleRule> rule_;
};

namespace schedules {

/// One schedule after the other (torch: SequentialLR). begins[i] is the step 0 of schedules[i + 1],
/// which starts from the base.
struct Sequence {
  std::vector<Schedule> schedules = {};   ///< at least one
  std::vector<std::int64_t> begins = {};  ///< >= 1, ascending; one fewer than schedules
};

/// All of them in every step, each on the value that the one before has left (torch:
/// ChainedScheduler). Function, InverseSquareRoot, WarmRestarts and OneCycle start from the base
/// again.
struct Chain {
  std::vector<Schedule> schedules = {};  ///< at least one
};

}  // namespace schedules

}  // namespace shampoo
