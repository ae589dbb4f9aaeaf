// SPDX-License-Identifier: Apache-2.0
#include "examples/gpt2_slab/options.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <stdexcept>

namespace gpt2_slab {

namespace {

constexpr const char* purpose =
    "Registers the tensors of GPT-2 as llm.c keeps them, stacked layer by layer in one slab of\n"
    "bfloat16, and trains them with synthetic gradients. Every layer has a learning rate of its "
    "own.";

void add_size(CLI::App& app, const char* name, std::int64_t& size, const char* what) {
  app.add_option(name, size, what)
      ->check(CLI::Range(1, 1 << 20))
      ->type_name("N")
      ->capture_default_str();
}

}  // namespace

std::optional<Options> read_options(int argc, const char* const* argv) {
  Options options;
  bool full = false;
  CLI::App app(purpose, "gpt2_slab");
  app.add_option("--backend", options.backend, "Where values, gradients and state lie")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->type_name("cpu|cuda")
      ->capture_default_str();
  app.add_option("--steps", options.steps)
      ->check(CLI::Range(1, 1 << 30))
      ->type_name("N")
      ->capture_default_str();
  auto* const gpt2 =
      app.add_flag("--gpt2-124m", full, "The sizes of GPT-2 with 124 million numbers");
  add_size(app, "--layers", options.size.layers, "Transformer blocks");
  add_size(app, "--width", options.size.width, "Channels");
  add_size(app, "--vocabulary", options.size.vocabulary, "Tokens, padded");
  add_size(app, "--context", options.size.context, "Positions");
  for (const char* const name : {"--layers", "--width", "--vocabulary", "--context"})
    gpt2->excludes(app.get_option(name));
  app.add_option("--learning-rate", options.learning_rate, "Of the last layer")
      ->check(CLI::PositiveNumber)
      ->type_name("X")
      ->capture_default_str();
  app.add_option("--layer-decay", options.layer_decay,
                 "Learning rate of a layer as a part of that of the next one")
      ->check(CLI::Range(0.0, 1.0))
      ->type_name("X")
      ->capture_default_str();
  app.add_option("--noise", options.noise, "Deviation of the noise in the gradients")
      ->check(CLI::NonNegativeNumber)
      ->type_name("X")
      ->capture_default_str();
  auto* const checkpoint =
      app.add_option("--checkpoint", options.checkpoints,
                     "Folder of checkpoints, shared by all ranks; goes on from the latest")
          ->type_name("FOLDER");
  app.add_option("--every", options.every, "Steps between two checkpoints")
      ->check(CLI::Range(1, 1 << 30))
      ->type_name("N")
      ->capture_default_str()
      ->needs(checkpoint);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    throw std::invalid_argument(std::string(error.what()) + "; try --help");
  }
  if (full) options.size = Size{};
  return options;
}

}  // namespace gpt2_slab
