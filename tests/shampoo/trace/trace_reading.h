// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace shampoo::test {

/// Something that happened, in microseconds.
struct TracedEvent {
  std::string track;
  std::int64_t step = 0;
  double at = 0, duration = 0;
  nlohmann::json arguments = {};

  double end() const { return at + duration; }
};

/// Parses `rank`'s trace; throws where it is no JSON or lacks a field.
inline std::vector<TracedEvent> events_of(const std::string& text, int rank) {
  std::map<int, std::string> tracks;
  std::vector<TracedEvent> events;
  for (const nlohmann::json& event : nlohmann::json::parse(text)) {
    if (event.at("pid") != rank) throw std::runtime_error("an event of another rank");
    const nlohmann::json& arguments = event.at("args");
    if (event.at("ph") == "X")
      events.push_back({tracks.at(event.at("tid")), arguments.at("step"), event.at("ts"),
                        event.at("dur"), arguments});
    else if (event.at("name") == "thread_name")
      tracks[event.at("tid")] = arguments.at("name");
  }
  return events;
}

inline std::filesystem::path trace_path(const TemporaryFolder& folder, int rank = 0) {
  return folder.path() / "traces" / ("rank-" + std::to_string(rank) + ".json");
}

inline std::vector<TracedEvent> read_trace(const TemporaryFolder& folder, int rank = 0) {
  return events_of(content_of(trace_path(folder, rank)), rank);
}

inline std::set<std::string> tracks_of(const std::vector<TracedEvent>& events, std::int64_t step) {
  std::set<std::string> tracks;
  for (const TracedEvent& event : events)
    if (event.step == step) tracks.insert(event.track);
  return tracks;
}

/// Whether every step has one event of each of its tracks, all within the step and one after the
/// other. Times are whole nanoseconds, rounded: `slack` more for each of them.
inline void expect_phases_in_steps(const std::vector<TracedEvent>& events, std::int64_t steps,
                                   double slack = 0.002) {
  double earlier = 0;
  for (std::int64_t s = 1; s <= steps; ++s) {
    std::vector<TracedEvent> phases;
    for (const TracedEvent& event : events)
      if (event.step == s) phases.push_back(event);
    ASSERT_FALSE(phases.empty()) << s;
    EXPECT_EQ(tracks_of(events, s).size(), phases.size()) << s;
    const TracedEvent step = phases.front();
    ASSERT_EQ(step.track, "step");
    EXPECT_GE(step.at + slack, earlier) << s;
    earlier = step.end();
    double sum = 0;
    for (std::size_t i = 1; i < phases.size(); ++i) {
      EXPECT_GE(phases[i].at + slack, step.at) << phases[i].track;
      EXPECT_LE(phases[i].end(), step.end() + slack) << phases[i].track;
      sum += phases[i].duration;
    }
    EXPECT_GT(sum, 0) << s;
    EXPECT_LE(sum, step.duration + slack * static_cast<double>(phases.size())) << s;
  }
}

}  // namespace shampoo::test
