// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "examples/gpt/layout.h"
#include "examples/gpt/method.h"
#include "examples/gpt/text.h"
#include "shampoo/shampoo.h"

namespace gpt {

/// What is the same for every optimizer that is compared.
struct Task {
  Size size = {};
  std::int64_t batch = 16;        ///< windows of a step, of all ranks together
  std::int64_t validation = 128;  ///< windows
  std::int64_t evaluate_every = 25;
  std::int64_t until = 0;  ///< ends after this step, the schedule stays; 0: all steps
  int threads = 1;         ///< of each rank
  int sample = 0;          ///< bytes of a sample at the end
  bool bfloat16 = false;   ///< type of the slabs; the optimizer then has float32 masters
  /// Every rank computes the gradient of the whole batch, and nothing is averaged: the bits are
  /// those of one rank.
  bool replicate = false;
  double clip = 1;                         ///< global norm of gradients; 0: none
  std::filesystem::path checkpoints = {};  ///< folder; none if empty
  std::int64_t checkpoint_every = 100;
};

/// One way to train it.
struct Attempt {
  const Method* method = nullptr;  ///< one of methods()
  Settings settings = {};
  std::uint64_t seed = 1;  ///< of first values and batches
};

/// Taken now and then.
struct Reading {
  std::int64_t step;         ///< steps taken
  double loss;               ///< validation, nats per byte
  double seconds;            ///< of training, without the readings
  double optimizer_seconds;  ///< of that; averaging of gradients not included
};

struct Outcome {
  Attempt attempt;
  std::vector<Reading> readings;   ///< since the start or the resumption
  double bytes_per_parameter = 0;  ///< state and workspace of this rank
  std::string plan;                ///< Optimizer::describe()
  std::string sample;              ///< of the trained model
  std::uint64_t checksum = 0;      ///< of the values
};

/// Trains on all ranks together, from the latest checkpoint if there is one. Collective: `threads`
/// may differ, the rest may not. `report` is called for every reading. Throws what the library
/// throws; std::invalid_argument for a checkpoint of a run with other options.
Outcome train(shampoo::Backend& backend, shampoo::Communicator& ranks, const Text& text,
              const Task& task, const Attempt& attempt,
              const std::function<void(const Reading&)>& report = {});

}  // namespace gpt
