// SPDX-License-Identifier: Apache-2.0
#include "shampoo/trace/phase_table.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <vector>

#include "grouping/table.h"
#include "shampoo/preconditioners/preconditioner.h"
#include "shampoo/update/block_work.h"

namespace shampoo {

namespace {

/// Phases with one line.
struct Line {
  std::string name;
  std::optional<double> work;  ///< of a mean step; empty: not predicted
  PhaseTime time = {};
};

std::string fixed(double number, int digits) {
  std::array<char, 64> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number,
                                 std::chars_format::fixed, digits);
  return {text.data(), end.ptr};
}

std::string share(double part, double all) {
  return all > 0 ? fixed(100 * part / all, 1) + " %" : "-";
}

Line line_of(std::string name, const StepClock& clock, std::span<const Phase> phases, std::size_t v,
             std::optional<double> work) {
  Line line{std::move(name), work};
  for (const Phase phase : phases) {
    const PhaseTime& time = clock.times()[phase_index(phase, v)];
    line.time.all += time.all;
    line.time.longest += time.longest;  // of several phases a bound
  }
  return line;
}

void add_group(const GroupStep& group, std::size_t v, const StepClock& clock,
               std::vector<Line>& lines) {
  const Recipe& recipe = group.recipe();
  const double every = static_cast<double>(recipe.refresh.every);
  double passes = 0;
  PreconditionerWork work;
  for (std::size_t b = 0; b < group.blocks().size(); ++b) {
    const std::vector<std::int64_t>& extent = group.extent(b);
    work += preconditioner_work(recipe, extent);
    passes += static_cast<double>(passes_work(grouping::numel(extent)));
  }
  const std::string name = "virtual group " + std::to_string(v) + ": ";
  const auto add = [&](const char* what, std::initializer_list<Phase> phases, double cost) {
    if (cost > 0) lines.push_back(line_of(name + what, clock, phases, v, cost));
  };
  add("factors", {Phase::factors}, static_cast<double>(work.factors));
  add("roots", {Phase::roots}, static_cast<double>(work.refresh) / every);
  if (group.stored() == StoredDirection::block) {
    add("filter, precondition, update", {Phase::update},
        static_cast<double>(work.direction) + passes);
    return;
  }
  add("precondition", {Phase::precondition}, static_cast<double>(work.direction));
  add("filter, update", {Phase::filter, Phase::update}, passes);
}

}  // namespace

std::string phase_table(std::span<const std::unique_ptr<GroupStep>> groups,
                        const StepClock& clock) {
  std::vector<Line> lines;
  for (const Phase phase : {Phase::scan, Phase::vote, Phase::exchange, Phase::apply})
    lines.push_back(line_of(name_of(phase), clock, {&phase, 1}, 0, {}));
  std::erase_if(lines, [](const Line& line) { return line.time.all == 0; });
  for (std::size_t v = 0; v < groups.size(); ++v) add_group(*groups[v], v, clock, lines);

  double work = 0, time = 0;
  for (const Line& line : lines)
    if (line.work) {
      work += *line.work;
      time += line.time.all;
    }
  const bool measured = clock.steps() > 0;
  const auto milliseconds = [&](const PhaseTime& spent) {
    return fixed(spent.all / static_cast<double>(clock.steps()) * 1e3, 3);
  };
  grouping::Rows rows{{"phase", "predicted"}};
  if (measured) rows[0].insert(rows[0].end(), {"measured", "ms a step", "longest ms"});
  const auto add = [&](const Line& line) {
    rows.push_back({line.name, line.work ? share(*line.work, work) : "-"});
    if (measured)
      rows.back().insert(rows.back().end(),
                         {line.work ? share(line.time.all, time) : "-", milliseconds(line.time),
                          fixed(line.time.longest * 1e3, 3)});
  };
  for (const Line& line : lines) add(line);
  if (measured)
    add({"step, mean of " + std::to_string(clock.steps()), std::nullopt, clock.step_time()});
  return grouping::table(rows);
}

}  // namespace shampoo
