// SPDX-License-Identifier: Apache-2.0
// Times snapshot, save and load of a model's state on one disk, against plain copies, writes and
// reads of as many bytes in the same run, and the steps during which an AsyncCheckpointer saves.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "shampoo/shampoo.h"
#include "tests/bench/plain_copies.h"
#include "tests/bench/results.h"
#include "tests/support/models.h"
#include "tests/support/temporary_folder.h"

namespace shampoo::test {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string model = "gpt2-124m";
  std::string folder = ".";
  int threads = 0;
  int repeats = 3;
  bool derived = true;
  bool json = false;
};

/// Values and gradients of a model, one group.
class Trainee {
 public:
  explicit Trainee(const Model& model) : model_(model) {
    for (const Model::Tensor& tensor : model.tensors) {
      const auto elements = static_cast<std::size_t>(grouping::numel(tensor.shape));
      values_.emplace_back(elements);
      gradients_.emplace_back(elements);
      // No two bytes in a row alike, so that no file system can leave anything out.
      std::uint32_t bits = static_cast<std::uint32_t>(gradients_.size());
      for (float& number : gradients_.back()) {
        bits = bits * 1664525u + 1013904223u;
        number = static_cast<float>(bits >> 8) * 0x1p-24f - .5f;
      }
    }
  }

  ParameterGroup group() {
    ParameterGroup group{.rates = {.learning_rate = 1e-3}};
    group.recipe.blocking = {.size = model_.block_size, .target_order = 1};
    for (std::size_t i = 0; i < values_.size(); ++i)
      group.parameters.push_back({.name = model_.tensors[i].name,
                                  .shape = model_.tensors[i].shape,
                                  .value = values_[i].data(),
                                  .gradient = gradients_[i].data()});
    return group;
  }

 private:
  const Model& model_;
  std::vector<std::vector<float>> values_, gradients_;
};

double seconds_of(const std::function<void()>& action) {
  const auto begin = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::vector<fs::path> files_of(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  return files;
}

/// One of each, alternating, so that what else the machine does meets all of them.
struct Times {
  std::vector<double> snapshot, copy, save, write, load, load_cached, read, read_cached;
  std::vector<double> step, start, step_beside, save_beside;
};

class Benchmark {
 public:
  Benchmark(Optimizer& optimizer, const Options& options, const fs::path& folder)
      : optimizer_(optimizer), options_(options), folder_(folder) {}

  void repeat() {
    times.snapshot.push_back(seconds_of([&] {
      const Snapshot copy = snapshot(optimizer_, {}, options_.derived);
      state_bytes = copy.bytes();
    }));
    {
      const PlainCopy copy(static_cast<std::uint64_t>(state_bytes));
      times.copy.push_back(seconds_of([&] { copy.run(); }));
    }
    fs::path checkpoint;
    times.save.push_back(seconds_of([&] {
      checkpoint = save(optimizer_, folder_ / "root", {}, {.derived = options_.derived});
    }));
    bytes = 0;
    for (const fs::path& file : files_of(checkpoint)) bytes += fs::file_size(file);
    manifest_bytes = fs::file_size(checkpoint / "manifest.json");
    times.write.push_back(seconds_of([&] { write_plainly(folder_ / "plain", bytes); }));
    time_reads(checkpoint);
    fs::remove_all(folder_ / "root");
    fs::remove(folder_ / "plain");
    time_steps();
  }

  Times times;
  std::uint64_t bytes = 0;           ///< of a checkpoint
  std::uint64_t manifest_bytes = 0;  ///< of its manifest
  std::int64_t state_bytes = 0;      ///< of the tensors in it

 private:
  void time_reads(const fs::path& checkpoint) {
    for (const fs::path& file : files_of(checkpoint)) forget(file);
    forget(folder_ / "plain");
    times.load.push_back(seconds_of([&] { load(optimizer_, checkpoint); }));
    times.read.push_back(seconds_of([&] { read_plainly(folder_ / "plain"); }));
    times.load_cached.push_back(seconds_of([&] { load(optimizer_, checkpoint); }));
    times.read_cached.push_back(seconds_of([&] { read_plainly(folder_ / "plain"); }));
  }

  /// Steps with nothing beside them, then steps until a save has come about beside them.
  void time_steps() {
    for (int i = 0; i < 3; ++i) times.step.push_back(seconds_of([&] { optimizer_.step(); }));
    AsyncCheckpointer checkpointer(optimizer_);
    times.save_beside.push_back(seconds_of([&] {
      times.start.push_back(seconds_of(
          [&] { checkpointer.start(folder_ / "root", {}, {.derived = options_.derived}); }));
      for (bool saved = false; !saved;)
        times.step_beside.push_back(seconds_of([&] {
          optimizer_.step();
          saved = checkpointer.poll().has_value();
        }));
    }));
    fs::remove_all(folder_ / "root");
  }

  Optimizer& optimizer_;
  const Options& options_;
  const fs::path& folder_;
};

double median(std::vector<double> numbers) {
  std::sort(numbers.begin(), numbers.end());
  return (numbers[numbers.size() / 2] + numbers[(numbers.size() - 1) / 2]) / 2;
}

nlohmann::ordered_json summary(const Options& options, const Model& model,
                               const Benchmark& benchmark, const Backend& backend) {
  const Times& times = benchmark.times;
  const double save = median(times.save), load = median(times.load);
  nlohmann::ordered_json result;
  result["model"] = options.model;
  result["backend"] = backend.description();
  result["parameters"] = model.numel();
  result["derived"] = options.derived;
  result["repeats"] = options.repeats;
  result["state_bytes"] = benchmark.state_bytes;
  result["checkpoint_bytes"] = benchmark.bytes;
  result["manifest_bytes"] = benchmark.manifest_bytes;
  result["snapshot_s"] = median(times.snapshot);
  result["plain_copy_s"] = median(times.copy);
  result["snapshot_over_plain_copy"] = median(times.snapshot) / median(times.copy);
  result["save_s"] = save;
  result["plain_write_fsync_s"] = median(times.write);
  result["save_over_plain_write"] = save / median(times.write);
  result["load_s"] = load;
  result["plain_read_s"] = median(times.read);
  result["load_over_plain_read"] = load / median(times.read);
  result["load_cached_s"] = median(times.load_cached);
  result["plain_read_cached_s"] = median(times.read_cached);
  result["load_cached_over_plain_copy"] = median(times.load_cached) / median(times.copy);
  result["step_s"] = median(times.step);
  result["start_s"] = median(times.start);
  result["steps_while_saving"] = times.step_beside.size();
  result["step_while_saving_s"] = median(times.step_beside);
  result["longest_step_while_saving_s"] = std::ranges::max(times.step_beside);
  result["save_beside_steps_s"] = median(times.save_beside);
  result["save_gbytes_per_second"] = static_cast<double>(benchmark.bytes) / save / 1e9;
  result["load_gbytes_per_second"] = static_cast<double>(benchmark.bytes) / load / 1e9;
  return result;
}

void measure(const Options& options) {
  const Model model = load_model(options.model);
  const TemporaryFolder scratch(options.folder);
  const auto backend = cpu_backend({.threads = options.threads});
  const auto ranks = single_rank_communicator();
  Trainee trainee(model);
  Optimizer optimizer(*backend, *ranks, {trainee.group()});
  optimizer.step();
  Benchmark benchmark(optimizer, options, scratch.path());
  for (int i = 0; i < options.repeats; ++i) benchmark.repeat();

  const nlohmann::ordered_json result = summary(options, model, benchmark, *backend);
  print_result(result, options.json);
}

}  // namespace
}  // namespace shampoo::test

int main(int argc, char** argv) {
  using namespace shampoo::test;
  Options options;
  CLI::App app(
      "Times snapshot, save and load of the state of one rank and the steps beside a save, as "
      "medians.");
  app.add_option("--model", options.model, "small, many, vit-b16, gpt2-124m or a .json file")
      ->capture_default_str();
  app.add_option("--folder", options.folder, "Where to put the checkpoints: the disk to measure")
      ->capture_default_str();
  app.add_option("--threads", options.threads, "Of the backend [the processors]")
      ->check(CLI::Range(0, 1024));
  app.add_option("--repeats", options.repeats, "How often")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_flag("!--without-roots", options.derived, "Leave derived state out");
  app.add_flag("--json", options.json, "One JSON object");
  CLI11_PARSE(app, argc, argv);
  try {
    measure(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "checkpoint_benchmark: %s\n", error.what());
    return 1;
  }
}
