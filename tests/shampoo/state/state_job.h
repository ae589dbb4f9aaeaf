// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "distributor/communicator.h"
#include "tests/shampoo/toy_model.h"
#include "tests/support/cpu_kernels.h"
#include "tests/support/read_rates.h"
#include "tests/support/thrown.h"

namespace shampoo::test {

/// The trained model, equal in the saving and the loading run.
struct Trainee {
  std::vector<std::vector<std::int64_t>> shapes = awkward_shapes();
  std::vector<Recipe> recipes = {quick_recipe()};  ///< tensor t has recipes[t % size]
  bool narrow = false;                             ///< every other tensor has values in bfloat16
  int absent_every = 0;  ///< tensor t has no gradient in step s where (s + t) % absent_every == 0
};

/// Every kind of slot: factors, roots, both moments, momentum, iterates, masters; counters that
/// differ.
inline Trainee everything() {
  Recipe staggered = quick_recipe();
  staggered.averaging = Momentum{};
  Recipe at_once = quick_recipe();
  at_once.grafting = Sgd{};
  at_once.averaging = ScheduleFree{};
  at_once.refresh.staggered = false;
  return {.recipes = {staggered, at_once}, .narrow = true, .absent_every = 4};
}

/// Runs a body on several ranks, each with its own backend.
using RankRunner =
    std::function<void(int, const std::function<void(Communicator&, kernels::Backend&)>&)>;

inline void run_on_cpu(int ranks,
                       const std::function<void(Communicator&, kernels::Backend&)>& body) {
  run_ranks(ranks, [&](Communicator& communicator) {
    const auto backend = cpu_kernels({.threads = 1});
    body(communicator, *backend);
  });
}

/// The way of training, which may differ between the two runs.
struct Arrangement {
  int ranks = 1;
  int groups = 1;  ///< per recipe
  bool merges = true;
  bool reversed = false;  ///< order of groups and parameters
  Rates rates = {.learning_rate = 1e-2, .epsilon = 1e-6, .weight_decay = 0.01, .momentum = 0.5};
  RankRunner run = run_on_cpu;
};

/// Trainer of one rank.
template <typename Scalar>
class Job {
 public:
  using Values =
      std::pair<std::vector<std::vector<Scalar>>, std::vector<std::vector<std::uint16_t>>>;

  /// `backend`: null: creates its own.
  Job(Communicator& communicator, const Trainee& trainee, const Arrangement& arrangement,
      const OptimizerOptions& options = {}, kernels::Backend* backend = nullptr)
      : trainee_(trainee), model(trainee.shapes, 1, backend), narrow_(model.tensors.size()) {
    for (std::size_t t = 0; t < narrow_.size(); ++t) {
      const std::vector<Scalar>& value = model.tensors[t].value;
      if (trainee.narrow && t % 2 == 0) narrow_[t].assign(value.size(), 0x3f80);  // 1
      narrow_there_.emplace_back(backend, narrow_[t]);
    }
    OptimizerOptions merging = options;
    merging.merge_groups = arrangement.merges;
    optimizer = std::make_unique<Optimizer>(backend ? *backend : *backend_, communicator,
                                            groups(arrangement), merging);
  }

  /// Takes the steps [first, last), each with its own gradients.
  void train(int first, int last) {
    for (int step = first; step < last; ++step) {
      while (made_ < step) {
        model.new_gradients();
        ++made_;
      }
      set_gradients(step);
      optimizer->step();
    }
    if (first < last) (void)optimizer->latest_result().applied();
  }

  Values values() const {
    Values all{model.values(), {}};
    for (const auto& narrow : narrow_there_) all.second.push_back(narrow.fetch());
    return all;
  }
  void set_values(const Values& values) {
    for (std::size_t t = 0; t < narrow_.size(); ++t) {
      std::ranges::copy(values.first[t], model.tensors[t].value.begin());
      std::ranges::copy(values.second[t], narrow_[t].begin());
      narrow_there_[t].send();
    }
    model.send_values();
  }

 private:
  std::vector<ParameterGroup> groups(const Arrangement& arrangement) {
    const std::size_t recipes = trainee_.recipes.size();
    const auto split = static_cast<std::size_t>(arrangement.groups);
    std::vector<ParameterGroup> made(recipes * split);
    for (std::size_t g = 0; g < made.size(); ++g)
      made[g] = {.rates = read_rates(trainee_.recipes[g % recipes], arrangement.rates),
                 .recipe = trainee_.recipes[g % recipes]};
    for (std::size_t t = 0; t < model.tensors.size(); ++t) {
      Parameter parameter = model.parameter(t);
      if (!narrow_[t].empty()) parameter.value = Tensor(narrow_there_[t].data(), Type::bfloat16);
      made[t % recipes + recipes * (t / recipes % split)].parameters.push_back(parameter);
    }
    std::erase_if(made, [](const ParameterGroup& group) { return group.parameters.empty(); });
    if (arrangement.reversed) {
      std::ranges::reverse(made);
      for (ParameterGroup& group : made) std::ranges::reverse(group.parameters);
    }
    return made;
  }

  void set_gradients(int step) {
    for (int g = 0; g < optimizer->group_count(); ++g) {
      Group& group = optimizer->group(g);
      for (std::size_t j = 0; j < group.parameters().size(); ++j) {
        const auto tensor = std::ranges::find(model.tensors, group.parameters()[j].name,
                                              &ToyModel<Scalar>::Tensor::name);
        const auto t = static_cast<int>(tensor - model.tensors.begin());
        const bool absent = trainee_.absent_every > 0 && (step + t) % trainee_.absent_every == 0;
        group.set_gradient(
            j, absent ? nullptr : model.parameter(static_cast<std::size_t>(t)).gradient.data);
      }
    }
  }

  Trainee trainee_;
  std::unique_ptr<kernels::Backend> backend_ = cpu_kernels({.threads = 1});

 public:
  ToyModel<Scalar> model;

 private:
  std::vector<std::vector<std::uint16_t>> narrow_;
  std::deque<Placed<std::uint16_t>> narrow_there_;

 public:
  std::unique_ptr<Optimizer> optimizer;

 private:
  int made_ = 0;  ///< gradients so far
};

/// The end of a run, the same on all ranks.
template <typename Scalar>
struct End {
  StateDict state;
  typename Job<Scalar>::Values values;
  bool operator==(const End&) const = default;
};

inline void expect_says(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << "'" << part << "' in: " << message;
}

inline StateTensor& tensor_of(StateDict& dict, const std::string& name) {
  for (StateTensor& tensor : dict.tensors)
    if (tensor.name() == name) return tensor;
  throw std::out_of_range(name);
}

/// Blocks at the edge, vectors, matrices of one row of blocks.
inline const Trainee small{.shapes = {{9, 8}, {13}, {20, 3}}};

/// Steps before and after the state is saved.
inline constexpr int steps_before = 7, steps_after = 10;

/// Trains from the start.
template <typename Scalar>
End<Scalar> train_first(const Trainee& trainee, const Arrangement& arrangement,
                        int steps = steps_before) {
  End<Scalar> end;
  arrangement.run(arrangement.ranks, [&](Communicator& communicator, kernels::Backend& backend) {
    Job<Scalar> job(communicator, trainee, arrangement, {}, &backend);
    job.train(0, steps);
    StateDict state = job.optimizer->full_state_dict({}, Gather::on_rank_0);
    if (communicator.rank() == 0) end = {std::move(state), job.values()};
  });
  return end;
}

/// Continues the training of another run.
template <typename Scalar>
End<Scalar> train_on(const End<Scalar>& from, const Trainee& trainee,
                     const Arrangement& arrangement, const LoadOptions& options = {},
                     int steps = steps_after) {
  End<Scalar> end;
  arrangement.run(arrangement.ranks, [&](Communicator& communicator, kernels::Backend& backend) {
    Job<Scalar> job(communicator, trainee, arrangement, {}, &backend);
    job.set_values(from.values);
    job.optimizer->load_state_dict(from.state, options);
    job.train(steps_before, steps_before + steps);
    StateDict state = job.optimizer->full_state_dict({}, Gather::on_rank_0);
    if (communicator.rank() == 0) end = {std::move(state), job.values()};
  });
  return end;
}

/// A state that belongs to `small`.
inline StateDict trained_state() { return train_first<float>(small, {}).state; }

/// Optimizer of one rank.
struct Alone {
  explicit Alone(const Trainee& trainee = small, const Arrangement& arrangement = {})
      : job(*communicator, trainee, arrangement) {}

  /// The message of a load; the state must not have changed.
  std::string refusal(const StateDict& dict, const LoadOptions& options = {}) {
    const StateDict before = job.optimizer->state_dict();
    const auto bytes = state_of(*job.optimizer, job.model);
    const std::string message =
        error_of<std::invalid_argument>([&] { job.optimizer->load_state_dict(dict, options); });
    EXPECT_FALSE(message.empty());
    EXPECT_EQ(job.optimizer->state_dict(), before) << message;
    EXPECT_EQ(state_of(*job.optimizer, job.model), bytes) << message;
    return message;
  }

  std::unique_ptr<Communicator> communicator = single_rank_communicator();
  Job<float> job;
};

}  // namespace shampoo::test
