// SPDX-License-Identifier: Apache-2.0
#include "examples/fashion/options.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <limits>
#include <map>
#include <string>
#include <system_error>

#include "examples/fashion/network/dataset.h"
#include "examples/fashion/schedules.h"
#include "examples/usage_error.h"

namespace fashion {

namespace {

constexpr const char* purpose =
    "Trains a small convolutional network on Fashion-MNIST with one optimizer after the other, "
    "from\n"
    "the same weights and with the same images. Ends with a table and a chart of all.";

/// The optimizers that a user would weigh.
const std::vector<std::string> default_methods = {"shampoo", "soap", "muon", "adamw"};

std::vector<std::string> keys() {
  std::vector<std::string> all;
  for (const Method& method : methods()) all.push_back(method.key);
  return all;
}

/// What is wrong with a number; empty: nothing.
std::string above_zero(const std::string& text) {
  double number = 0;
  return CLI::detail::lexical_cast(text, number) && number > 0 && number < 1e9
             ? std::string()
             : "a number above 0 and below 1e9 is needed, got " + text;
}

/// The same of a seed, of which CLI11 would take 2^64 - 1 for whatever is larger.
std::string seed(const std::string& text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size()
             ? std::string()
             : "an integer from 0 to 18446744073709551615 is needed, got " + text;
}

}  // namespace

std::optional<Options> read_options(int argc, const char* const* argv) {
  Options options;
  options.data = debian_folder;
  options.methods = default_methods;

  CLI::App app(purpose, "fashion");
  app.add_option("--data", options.data, "Folder of the four IDX files, gzipped or not")
      ->type_name("DIR")
      ->capture_default_str();
  auto* const optimizer = app.add_option("--optimizer", options.methods,
                                         "Optimizers to train with, separated by commas: " +
                                             CLI::detail::join(keys(), ", "))
                              ->delimiter(',')
                              ->check(CLI::IsMember(keys()).description(""))
                              ->type_name("LIST")
                              ->capture_default_str();
  std::string routes_file;
  auto* const routes =
      app.add_option(
             "--routes", routes_file,
             "JSON file of shampoo::Routes: recipe and peak rates by parameter, in place of "
             "--optimizer and what belongs to it")
          ->type_name("FILE");
  auto* const rate =
      app.add_option("--rate", options.rate, "Peak learning rate [each optimizer's best]")
          ->check(above_zero)
          ->type_name("X");
  app.add_option("--schedule", options.schedule,
                 "Schedule of the learning rate, in place of half a cosine after a warmup: " +
                     CLI::detail::join(schedule_names(), ", ") + "; draws it, too")
      ->check(CLI::IsMember(schedule_names()).description(""))
      ->type_name("NAME");
  app.add_option("--ema", options.ema,
                 "Decay of a moving average of the values, which the test images see")
      ->check([](const std::string& text) {
        double number = 0;
        return CLI::detail::lexical_cast(text, number) && number >= 0 && number < 1
                   ? std::string()
                   : "a number in [0, 1) is needed";
      })
      ->type_name("X");
  app.add_option("--clip", options.clip, "Largest norm of all gradients together")
      ->check(above_zero)
      ->type_name("X");
  app.add_option("--accumulate", options.numerics.micro_batches,
                 "Micro-batches that a rank's share of a batch is cut into, whose gradients are "
                 "summed")
      ->check(CLI::Range(1, batch_size))
      ->type_name("N")
      ->capture_default_str();
  const std::map<std::string, Precision> precisions = {
      {"fp32", Precision::fp32}, {"bf16", Precision::bf16}, {"fp16", Precision::fp16}};
  std::string precision = "fp32";
  app.add_option("--precision", precision,
                 "Of the values and gradients that are trained: fp32, bf16, or fp16, which has a "
                 "dynamic loss scale [fp32]")
      ->check(CLI::IsMember(precisions).description(""))
      ->type_name("TYPE");
  const int most = std::numeric_limits<int>::max();
  app.add_option("--epochs", options.epochs, "Passes over the training images")
      ->check(CLI::Range(1, 10000))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--steps", options.steps, "End after so many steps; the schedule stays")
      ->check(CLI::Range(1, most))
      ->type_name("N");
  app.add_option("--seed", options.seed, "Of the first weights and of the order of the images")
      ->check(seed)
      ->type_name("N")
      ->capture_default_str();
  auto* const block = app.add_option("--block", options.preconditioning.block,
                                     "Longest side of a block, of optimizers that have them")
                          ->check(CLI::Range(1, most))
                          ->type_name("N")
                          ->capture_default_str();
  auto* const refresh = app.add_option("--refresh", options.preconditioning.refresh,
                                       "Steps between two refreshes of roots or bases")
                            ->check(CLI::Range(1, most))
                            ->type_name("N")
                            ->capture_default_str();
  auto* const at_once =
      app.add_flag("--refresh-at-once", options.preconditioning.at_once,
                   "Refresh all blocks in the same step instead of some in every step");
  app.add_option("--threads", options.threads,
                 "Threads of each rank; the results do not depend on them [OMP_NUM_THREADS, or the "
                 "processors, divided among the ranks of the host]")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  app.add_option("--output", options.output, "Where to put the chart, a PNG; the table joins it")
      ->check([](const std::string& file) {
        return file.ends_with(".png") ? std::string() : "a name that ends in .png is needed";
      })
      ->take_last()
      ->type_name("FILE")
      ->capture_default_str();
  auto* const sweep = app.add_flag(
      "--sweep", options.sweep, "Train at three rates with three seeds each, and print the means");
  auto* const group_rates = app.add_flag(
      "--group-rates", options.group_rates,
      "Give every tensor a group with a rate of its own, train with the first optimizer on 1 and 2 "
      "ranks, which are threads, with groups merged, unmerged and in an optimizer each, and print "
      "what a step takes");
  auto* const trace =
      app.add_option("--trace", options.trace,
                     "Folder for traces of each optimizer's steps, which ui.perfetto.dev opens")
          ->type_name("DIR");
  CheckpointPlan plan;
  auto* const checkpoint =
      app.add_option("--checkpoint", plan.folder,
                     "Folder of checkpoints of the training, shared by all ranks")
          ->type_name("DIR");
  app.add_option("--every", plan.every, "Steps between two checkpoints; there is one at the end")
      ->check(CLI::Range(1, most))
      ->type_name("N")
      ->needs(checkpoint)
      ->capture_default_str();
  app.add_option("--keep", plan.keep, "Checkpoints that are kept of each optimizer; 0: all")
      ->check(CLI::Range(0, most))
      ->type_name("K")
      ->needs(checkpoint)
      ->capture_default_str();
  app.add_flag("--resume", plan.resume, "Go on from the latest checkpoint, if there is one")
      ->needs(checkpoint);
  for (CLI::Option* const other : {optimizer, rate, block, refresh, at_once, sweep})
    routes->excludes(other);
  for (CLI::Option* const other : {routes, at_once, sweep, trace, checkpoint})
    group_rates->excludes(other);
  for (const char* const other : {"--clip", "--accumulate", "--precision"})
    group_rates->excludes(app.get_option(other));
  sweep->excludes(checkpoint);
  sweep->excludes(rate);
  sweep->excludes(trace);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    throw examples::UsageError(std::string(error.what()) + "; try --help");
  }
  options.numerics.precision = precisions.at(precision);
  if (!plan.folder.empty()) options.checkpoints = plan;
  if (!routes_file.empty()) options.routed = routed_method(routes_file);
  return options;
}

}  // namespace fashion
