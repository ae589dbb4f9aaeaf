// SPDX-License-Identifier: Apache-2.0
#include "examples/fashion/schedules.h"

#include <functional>
#include <map>
#include <stdexcept>

namespace fashion {

namespace {

using shampoo::Schedule;
namespace kinds = shampoo::schedules;

constexpr int rise = 50;  // steps

Schedule after_warm_up(const Schedule& schedule) {
  return kinds::Sequence{{kinds::Linear{.start_factor = 1.0 / rise, .steps = rise}, schedule},
                         {rise}};
}

using Make = std::function<Schedule(int steps, int steps_per_epoch)>;

const std::map<std::string, Make>& all() {
  static const std::map<std::string, Make> makers{
      {"constant", [](int, int) { return after_warm_up(Schedule()); }},
      {"cosine",
       [](int steps, int) { return after_warm_up(kinds::Cosine{.steps = steps - rise}); }},
      {"linear",
       [](int steps, int) {
         return Schedule(kinds::WarmUpStableDecay{.warm_up = rise, .decay = steps - rise});
       }},
      {"one_cycle", [](int steps, int) { return Schedule(kinds::OneCycle{.steps = steps}); }},
      {"polynomial",
       [](int steps, int) {
         return after_warm_up(kinds::Polynomial{.steps = steps - rise, .power = 2});
       }},
      {"step",
       [](int, int per_epoch) {
         return after_warm_up(kinds::Step{2 * per_epoch, 0.1});
       }},
      {"warm_restarts",
       [](int, int per_epoch) { return after_warm_up(kinds::WarmRestarts{.first = per_epoch}); }},
      {"warm_up_stable_decay", [](int steps, int) {
         const int decay = steps / 5;
         return Schedule(kinds::WarmUpStableDecay{
             .warm_up = rise, .stable = steps - rise - decay, .decay = decay});
       }}};
  return makers;
}

}  // namespace

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const auto& [name, make] : all()) names.push_back(name);
  return names;
}

Schedule schedule_named(const std::string& name, int steps, int steps_per_epoch) {
  const auto found = all().find(name);
  if (found == all().end()) throw std::invalid_argument("there is no schedule " + name);
  return found->second(steps, steps_per_epoch);
}

}  // namespace fashion
