// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "distributor/communicator.h"
#include "tests/shampoo/toy_model.h"
#include "tests/support/cpu_kernels.h"
#include "tests/support/thrown.h"

namespace shampoo::test {

inline constexpr int ranks = 3;

/// Trainer of one rank.
struct Trainer {
  explicit Trainer(Communicator& c, const OptimizerOptions& options = {})
      : communicator(c), optimizer(*backend, c, model.groups(quick_recipe(), {}), options) {}

  int rank() const { return communicator.rank(); }

  std::unique_ptr<kernels::Backend> backend = cpu_kernels({.threads = 1});
  ToyModel<float> model{{{9, 8}, {13}, {20, 3}}};
  Communicator& communicator;
  Optimizer optimizer;
};

using Messages = std::array<std::string, ranks>;

inline void expect_all_say(const Messages& messages, const std::vector<std::string>& parts) {
  for (const std::string& message : messages) {
    EXPECT_EQ(message, messages[0]);
    for (const std::string& part : parts)
      EXPECT_NE(message.find(part), std::string::npos) << "'" << part << "' in: " << message;
  }
}

/// Every rank trains two steps, then `spoil` acts, then a step throws the same Error on all.
template <typename Error>
Messages messages_after(const std::function<void(Trainer&)>& spoil, bool stays_usable,
                        const OptimizerOptions& options = {}) {
  Messages messages;
  run_ranks(ranks, [&](Communicator& communicator) {
    Trainer trainer(communicator, options);
    trainer.optimizer.step();
    trainer.optimizer.step();
    const auto before = trainer.model.values();
    const auto state = state_of(trainer.optimizer, trainer.model);
    spoil(trainer);
    messages[trainer.rank()] = error_of<Error>([&] { trainer.optimizer.step(); });
    EXPECT_EQ(trainer.model.values(), before) << "rank " << trainer.rank();
    EXPECT_EQ(trainer.optimizer.steps("tensor0"), 2);
    if (stays_usable) {
      EXPECT_EQ(state_of(trainer.optimizer, trainer.model), state);
    }
    EXPECT_EQ(trainer.optimizer.failure(), stays_usable ? "" : messages[trainer.rank()]);

    // A disabled optimizer throws the same error again, without the other ranks.
    const Rates good;
    trainer.optimizer.group(1).rates = good;
    trainer.model.new_gradients();
    for (std::size_t t = 0; t < 3; ++t)
      trainer.optimizer.group(static_cast<int>(t))
          .set_gradient(0, trainer.model.tensors[t].gradient.data());
    if (stays_usable) {
      EXPECT_TRUE(trainer.optimizer.step().applied());
    } else {
      EXPECT_EQ(error_of<CommunicationError>([&] { trainer.optimizer.step(); }),
                messages[trainer.rank()]);
    }
  });
  return messages;
}

inline constexpr double nan = std::numeric_limits<double>::quiet_NaN();

}  // namespace shampoo::test
