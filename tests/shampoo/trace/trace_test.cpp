// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <limits>
#include <optional>
#include <sstream>

#include "distributor/communicator.h"
#include "tests/shampoo/toy_model.h"
#include "tests/shampoo/trace/trace_reading.h"
#include "tests/support/allocations.h"
#include "tests/support/thrown.h"

namespace shampoo::test {
namespace {

using Tracks = std::set<std::string>;

OptimizerOptions traced(const TemporaryFolder& folder) {
  return {.trace = (folder.path() / "traces").string()};
}

/// A group of Shampoo, whose directions are stored, and one of AdamW.
std::vector<ParameterGroup> two_recipes(ToyModel<float>& model) {
  Recipe shampoo = quick_recipe();
  shampoo.preconditioner = Eigendecomposed{};
  shampoo.refresh = {.every = 4, .first = 2, .staggered = false};
  std::vector<ParameterGroup> groups(2);
  groups[0] = {.parameters = {model.parameter(0), model.parameter(2)}, .recipe = shampoo};
  groups[1] = {.parameters = {model.parameter(1)}, .recipe = recipes::adamw()};
  return groups;
}

const Tracks plain = {"step",
                      "scan",
                      "virtual group 0: factors",
                      "virtual group 0: filter",
                      "virtual group 0: precondition",
                      "virtual group 0: update",
                      "virtual group 1: update"};

Tracks operator+(Tracks tracks, const Tracks& more) {
  tracks.insert(more.begin(), more.end());
  return tracks;
}

TEST(ATrace, HasATrackForEachPhaseOfEachVirtualGroup) {
  const TemporaryFolder folder;
  ToyModel<float> model({{9, 8}, {13}, {6, 5}});
  const auto backend = cpu_backend({.threads = 1});
  const auto ranks = single_rank_communicator();
  {
    Optimizer optimizer(*backend, *ranks, two_recipes(model), traced(folder));
    for (int step = 1; step <= 5; ++step) {
      model.tensors[0].gradient[0] = step == 5 ? std::numeric_limits<float>::infinity() : 1.0F;
      optimizer.step();
    }
  }

  const std::vector<TracedEvent> events = read_trace(folder);
  expect_phases_in_steps(events, 5);
  EXPECT_EQ(tracks_of(events, 1), plain);
  EXPECT_EQ(tracks_of(events, 2), plain + Tracks{"virtual group 0: roots"});
  EXPECT_EQ(tracks_of(events, 3), plain) << "nothing of the step before";
  EXPECT_EQ(tracks_of(events, 6), Tracks{});
  for (const TracedEvent& event : events) {
    if (event.track != "step") continue;
    EXPECT_EQ(event.arguments.at("applied"), event.step != 5) << event.step;
  }
}

TEST(ATrace, IsOfOneOptimizerAtATime) {
  const TemporaryFolder folder;
  ToyModel<float> model({{4, 3}}), other({{4, 3}});
  const auto backend = cpu_backend({.threads = 1});
  const auto ranks = single_rank_communicator();
  std::optional<Optimizer> first;
  first.emplace(*backend, *ranks, std::vector{model.group()}, traced(folder));
  first->step();
  const std::string error = error_of<std::invalid_argument>(
      [&] { Optimizer(*backend, *ranks, {other.group()}, traced(folder)); });
  EXPECT_NE(error.find("rank-0.json: another optimizer writes it"), std::string::npos) << error;
  first.reset();
  expect_phases_in_steps(read_trace(folder), 1);
  Optimizer(*backend, *ranks, {other.group()}, traced(folder)).step();
  expect_phases_in_steps(read_trace(folder), 1);
}

TEST(ATrace, HasOneTrackForWhatIsOnePass) {
  const TemporaryFolder folder;
  ToyModel<float> model({{9, 8}, {6, 5}});
  const auto backend = cpu_backend({.threads = 1});
  const auto ranks = single_rank_communicator();
  Recipe recipe = quick_recipe();
  recipe.refresh = {.every = 4, .first = 2};
  {
    Optimizer optimizer(*backend, *ranks, {model.group(recipe)}, traced(folder));
    optimizer.step();
    EXPECT_NE(optimizer.describe().find("virtual group 0: filter, precondition, update"),
              std::string::npos);
  }
  EXPECT_EQ(tracks_of(read_trace(folder), 1),
            (Tracks{"step", "scan", "virtual group 0: factors", "virtual group 0: update"}));
}

TEST(ATrace, HasAnEventForEachChunkOfDirections) {
  const TemporaryFolder folder;
  ToyModel<float> model({{9, 8}, {13}, {6, 5}});
  const auto backend = cpu_backend({.threads = 1});
  const auto ranks = single_rank_communicator();
  OptimizerOptions options = traced(folder);
  options.direction_bytes = 0;
  {
    Optimizer optimizer(*backend, *ranks, two_recipes(model), options);
    for (int step = 1; step <= 3; ++step) optimizer.step();
    EXPECT_NE(optimizer.describe().find("step, mean of 3"), std::string::npos);
  }

  const std::vector<TracedEvent> events = read_trace(folder);
  const auto count = [&](std::int64_t step, const std::string& track) {
    return std::ranges::count_if(events, [&](const TracedEvent& event) {
      return event.step == step && event.track == track;
    });
  };
  // Blocks of at most 8: two of 9 x 8, one of 6 x 5. AdamW has no directions.
  for (const char* phase : {"filter", "precondition", "update"})
    EXPECT_EQ(count(2, "virtual group 0: " + std::string(phase)), 3) << phase;
  EXPECT_EQ(count(2, "virtual group 0: factors"), 1);
  EXPECT_EQ(count(2, "virtual group 0: roots"), 1);
  EXPECT_EQ(count(2, "virtual group 1: update"), 1);
  EXPECT_EQ(tracks_of(events, 3), plain);
}

TEST(ATrace, IsOneFilePerRank) {
  const TemporaryFolder folder;
  for (const bool votes : {false, true}) {
    run_ranks(3, [&](Communicator& ranks) {
      ToyModel<float> model({{9, 8}, {13}, {6, 5}});
      const auto backend = cpu_backend({.threads = 1});
      OptimizerOptions options = traced(folder);
      options.agree_before_commit = votes;
      if (ranks.rank() == 1) options.trace.clear();
      Optimizer optimizer(*backend, ranks, two_recipes(model), options);
      for (int step = 1; step <= 5; ++step) {
        model.tensors[0].gradient[0] = step == 4 ? std::numeric_limits<float>::infinity() : 1.0F;
        optimizer.step();
      }
    });

    EXPECT_FALSE(std::filesystem::exists(trace_path(folder, 1)));
    for (const int rank : {0, 2}) {
      const std::vector<TracedEvent> events = read_trace(folder, rank);
      expect_phases_in_steps(events, 5);
      Tracks every = {"step", "scan", "exchange", "apply"};
      if (votes) every.insert("vote");
      for (const std::string& track : every)
        EXPECT_TRUE(tracks_of(events, 5).contains(track)) << track;
      const Tracks skipped = tracks_of(events, 4);
      EXPECT_EQ(skipped == (Tracks{"step", "scan", "vote"}), votes);
    }
  }
}

TEST(ATrace, IsReadableAfterEveryStep) {
  const TemporaryFolder folder;
  ToyModel<float> model({{9, 8}, {13}, {6, 5}});
  const auto backend = cpu_backend({.threads = 1});
  const auto ranks = single_rank_communicator();
  Optimizer optimizer(*backend, *ranks, two_recipes(model), traced(folder));
  for (int step = 0; step < 3; ++step) {
    // As if the process had died here.
    expect_phases_in_steps(events_of(content_of(trace_path(folder)) + "]", 0), step);
    optimizer.step();
  }
}

TEST(ATrace, NamesTheTracksOfAnAddedGroup) {
  const TemporaryFolder folder;
  ToyModel<float> model({{9, 8}, {13}, {6, 5}, {4, 3}});
  const auto backend = cpu_backend({.threads = 1});
  const auto ranks = single_rank_communicator();
  {
    Optimizer optimizer(*backend, *ranks, two_recipes(model), traced(folder));
    optimizer.step();
    optimizer.add_group({.parameters = {model.parameter(3)}, .recipe = recipes::sgd()});
    optimizer.step();
  }

  const std::vector<TracedEvent> events = read_trace(folder);
  expect_phases_in_steps(events, 2);
  EXPECT_FALSE(tracks_of(events, 1).contains("virtual group 2: update"));
  EXPECT_TRUE(tracks_of(events, 2).contains("virtual group 2: update"));
}

TEST(ATrace, ChangesNoBits) {
  const TemporaryFolder folder;
  const auto train = [](const OptimizerOptions& options) {
    ToyModel<float> model(awkward_shapes());
    const auto backend = cpu_backend({.threads = 1});
    const auto ranks = single_rank_communicator();
    Optimizer optimizer(*backend, *ranks, model.groups(quick_recipe(), {}), options);
    for (int step = 0; step < 4; ++step) {
      model.new_gradients();
      optimizer.step();
    }
    return std::pair(model.values(), state_of(optimizer, model));
  };
  OptimizerOptions unmerged = traced(folder);
  unmerged.merge_groups = false;
  OptimizerOptions in_chunks = traced(folder);
  in_chunks.direction_bytes = 0;

  const auto expected = train({});

  EXPECT_EQ(train(traced(folder)), expected);
  EXPECT_EQ(train(unmerged), expected);
  EXPECT_EQ(train(in_chunks), expected);
}

TEST(ATrace, AllocatesNothingAfterTheFirstStep) {
  if (!AllocationCounter::sees_everything())
    GTEST_SKIP() << "a sanitizer does not tell who allocates";
  const TemporaryFolder folder;
  ToyModel<float> model({{9, 8}, {13}, {6, 5}});
  const auto backend = cpu_backend({.threads = 1});
  const auto ranks = single_rank_communicator();
  Optimizer optimizer(*backend, *ranks, two_recipes(model), traced(folder));
  optimizer.step();
  const std::uintmax_t before = std::filesystem::file_size(trace_path(folder));
  const AllocationCounter counter;
  for (int step = 0; step < 8; ++step) optimizer.step();

  EXPECT_EQ(counter.count().outside_blas(), 0);
  EXPECT_GT(std::filesystem::file_size(trace_path(folder)), before);
  EXPECT_GT(optimizer.statistics().refreshes, 0);
}

TEST(ATrace, ThatCannotBeWrittenIsAnError) {
  const TemporaryFolder folder;
  const std::filesystem::path file = write_file(folder.path() / "file", "");
  std::filesystem::create_directories(folder.path() / "taken" / "rank-0.json");
  std::filesystem::create_directories(folder.path() / "full");
  std::filesystem::create_symlink("/dev/full", folder.path() / "full" / "rank-0.json");
  for (const std::filesystem::path& path :
       {file, file / "below", folder.path() / "taken", folder.path() / "full"}) {
    std::vector<std::string> messages(3);
    run_ranks(3, [&](Communicator& ranks) {
      ToyModel<float> model({{9, 8}, {13}, {6, 5}});
      const auto backend = cpu_backend({.threads = 1});
      OptimizerOptions options;
      if (ranks.rank() == 0) options.trace = path.string();
      messages[static_cast<std::size_t>(ranks.rank())] = error_of<std::invalid_argument>(
          [&] { Optimizer(*backend, ranks, two_recipes(model), options); });
    });
    EXPECT_NE(
        messages[0].find("options: trace must be a folder that can be written: " + path.string()),
        std::string::npos)
        << messages[0];
    EXPECT_EQ(messages[1], messages[0]);
    EXPECT_EQ(messages[2], messages[0]);
  }
}

/// Lets no file of the process grow beyond this, where a full disk would.
class FileLimit {
 public:
  explicit FileLimit(std::uintmax_t bytes) : ignored_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, ignored_);
  }

 private:
  void (*ignored_)(int);
  rlimit before_ = {};
};

TEST(ATrace, EndsWithAWholeStepWhereTheDiskIsFull) {
  const TemporaryFolder folder;
  ToyModel<float> model({{9, 8}, {13}, {6, 5}});
  const auto backend = cpu_backend({.threads = 1});
  const auto ranks = single_rank_communicator();
  Optimizer optimizer(*backend, *ranks, two_recipes(model), traced(folder));
  optimizer.step();
  {
    const FileLimit limit(std::filesystem::file_size(trace_path(folder)) + 100);
    for (int step = 0; step < 2; ++step) EXPECT_TRUE(optimizer.step().applied());
  }

  expect_phases_in_steps(events_of(content_of(trace_path(folder)) + "]", 0), 1);
  EXPECT_NE(optimizer.describe().find("rank-0.json has ended after step 1: File too large"),
            std::string::npos)
      << optimizer.describe();
}

TEST(ADescription, HasPredictedAndMeasuredTimesOfPhases) {
  ToyModel<float> model({{9, 8}, {13}, {6, 5}});
  const auto backend = cpu_backend({.threads = 1});
  const auto ranks = single_rank_communicator();
  Optimizer optimizer(*backend, *ranks, two_recipes(model));
  const auto phases = [&] {
    const std::string text = optimizer.describe();
    return text.substr(text.find("  phase"));
  };
  EXPECT_EQ(phases().find("measured"), std::string::npos);
  EXPECT_NE(phases().find("virtual group 0: roots"), std::string::npos);

  for (int step = 0; step < 4; ++step) optimizer.step();

  EXPECT_NE(phases().find("measured  ms a step"), std::string::npos);
  EXPECT_NE(phases().find("step, mean of 4"), std::string::npos);
  EXPECT_NE(phases().find("virtual group 1: filter, update"), std::string::npos);
  EXPECT_EQ(phases().find("virtual group 1: factors"), std::string::npos);
  double predicted = 0, measured = 0;
  std::istringstream lines(phases());
  for (std::string line; std::getline(lines, line);)
    if (const std::size_t group = line.find("virtual group"); group != std::string::npos) {
      std::string percent;
      double share = 0;
      std::istringstream numbers(line.substr(line.find_last_of("abcdefghijklmnopqrstuvwxyz") + 1));
      numbers >> share >> percent;
      predicted += share;
      numbers >> share;
      measured += share;
    }
  // 5 lines, rounded to 0.1 each.
  EXPECT_NEAR(predicted, 100, 0.25);
  EXPECT_NEAR(measured, 100, 0.25);
}

}  // namespace
}  // namespace shampoo::test
