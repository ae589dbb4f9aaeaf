// SPDX-License-Identifier: Apache-2.0
#include "examples/gpt/options.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <limits>

#include "examples/usage_error.h"

namespace gpt {

namespace {

constexpr const char* purpose =
    "Trains a small GPT-2 on the bytes of a text with one optimizer after the other, from the "
    "same\n"
    "values and with the same batches. Ends with a table, a chart and a sample of each.";

std::vector<std::string> keys() {
  std::vector<std::string> all;
  for (const Method& method : methods()) all.push_back(method.key);
  return all;
}

template <typename Number>
void add_count(CLI::App& app, const char* name, Number& count, const char* what, int least = 1) {
  app.add_option(name, count, what)
      ->check(CLI::Range(least, std::numeric_limits<int>::max()).description(""))
      ->type_name("N");
}

template <typename Number>
CLI::Option* add_number(CLI::App& app, const char* name, Number& number, const char* what) {
  return app.add_option(name, number, what)
      ->check([](const std::string& text) {
        double value = 0;
        return CLI::detail::lexical_cast(text, value) && std::isfinite(value) && value >= 0
                   ? std::string()
                   : "a finite number from 0 on is needed, got " + text;
      })
      ->type_name("X");
}

void add_choice(CLI::App& app, const char* name, std::string& choice, const char* what,
                const std::vector<std::string>& all) {
  app.add_option(name, choice, what)
      ->check(CLI::IsMember(all).description(""))
      ->type_name(CLI::detail::join(all, "|"))
      ->capture_default_str();
}

void add_model(CLI::App& app, Options& options, std::string& precision) {
  add_count(app, "--layers", options.task.size.layers, "Transformer blocks [4]");
  add_count(app, "--width", options.task.size.width, "Channels [128]");
  add_count(app, "--heads", options.task.size.heads, "Heads of a block [4]");
  add_count(app, "--context", options.task.size.context, "Bytes that a byte can depend on [64]");
  add_count(app, "--batch", options.task.batch, "Sequences of a step, of all ranks together [16]");
  add_choice(app, "--precision", precision, "Of values and gradients; bf16: with float32 masters",
             {"fp32", "bf16"});
  add_choice(app, "--backend", options.backend, "Where values, gradients and state lie",
             {"cpu", "cuda"});
}

void add_optimizer(CLI::App& app, Options& options) {
  Settings& settings = options.settings;
  app.add_option("--optimizer", options.methods,
                 "Optimizers of the matrices, separated by commas: " +
                     CLI::detail::join(keys(), ", ") + "; AdamW trains the rest")
      ->delimiter(',')
      ->check(CLI::IsMember(keys()).description(""))
      ->type_name("LIST")
      ->capture_default_str();
  add_number(app, "--rate", options.rates,
             "Peak learning rates of the matrices, separated by commas [each optimizer's best]")
      ->delimiter(',');
  add_number(app, "--embedding-rate", settings.embedding_rate,
             "Peak learning rate of all else [3e-3, or with AdamW that of the matrices]");
  add_choice(app, "--schedule", settings.schedule, "After a warm-up", {"cosine", "wsd"});
  add_count(app, "--warm-up", settings.warm_up, "Steps of the warm-up [50]", 0);
  add_count(app, "--steps", settings.steps, "Steps of the schedule [500]");
  add_count(app, "--until", options.task.until, "End after this step; the schedule stays");
  add_number(app, "--weight-decay", settings.weight_decay, "Of all but vectors")
      ->capture_default_str();
  add_number(app, "--clip", options.task.clip, "Global norm of the gradients; 0: no clipping")
      ->capture_default_str();
  add_number(app, "--beta2", settings.beta2, "Decay of the optimizer's statistics");
  add_choice(app, "--grafting", settings.grafting, "Of Shampoo", {"adam", "sgd", "none"});
  add_count(app, "--block", settings.block, "Longest side of a block");
  add_count(app, "--refresh", settings.refresh, "Steps between two refreshes of roots or bases");
}

}  // namespace

std::optional<Options> read_options(int argc, const char* const* argv) {
  Options options;
  options.task.sample = 400;
  std::string precision = "fp32";
  CLI::App app(purpose, "gpt");
  app.add_option("--text", options.text, "File to train on, or folder of such")
      ->required()
      ->take_last()
      ->check(CLI::ExistingPath.description(""))
      ->type_name("PATH");
  add_model(app, options, precision);
  add_optimizer(app, options);
  add_count(app, "--seed", options.seed, "Of first values and batches [1]");
  add_count(app, "--seeds", options.seeds,
            "Train with so many seeds, from the first on, and print means");
  add_number(app, "--target", options.target,
             "Loss whose steps the table has [that of AdamW's best rate]");
  add_count(app, "--threads", options.threads,
            "Threads of each rank; the results do not depend on them");
  add_count(app, "--evaluate", options.task.evaluate_every, "Steps between two validations [25]");
  add_count(app, "--sample", options.task.sample, "Bytes of a sample at the end [400]", 0);
  app.add_flag("--describe", options.describe, "Print the plan of the optimizer");
  app.add_flag("--replicate", options.task.replicate,
               "Every rank computes the whole batch: the bits of one rank");
  auto* const checkpoint = app.add_option("--checkpoint", options.task.checkpoints,
                                          "Folder of checkpoints, shared by all ranks; goes on "
                                          "from the latest")
                               ->type_name("DIR");
  app.add_option("--every", options.task.checkpoint_every, "Steps between two checkpoints")
      ->check(CLI::Range(1, std::numeric_limits<int>::max()).description(""))
      ->type_name("N")
      ->needs(checkpoint)
      ->capture_default_str();
  app.add_option("--output", options.output, "Where to put the chart, a PNG; the table joins it")
      ->check([](const std::string& file) {
        return file.ends_with(".png") ? std::string() : "a name that ends in .png is needed";
      })
      ->take_last()
      ->type_name("FILE")
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    throw examples::UsageError(std::string(error.what()) + "; try --help");
  }
  options.task.bfloat16 = precision == "bf16";
  if (checkpoint->count() > 0 && (options.seeds > 1 || options.rates.size() > 1))
    throw examples::UsageError("--checkpoint: one seed and one rate are needed");
  return options;
}

}  // namespace gpt
