// SPDX-License-Identifier: Apache-2.0
// Two optimizers of one job, as those of a GAN, whose checkpoints are one.
#include <gtest/gtest.h>

#include <fstream>
#include <tuple>

#include "shampoo/checkpoint.h"
#include "shampoo/checkpoint/format/manifest.h"
#include "tests/shampoo/checkpoint/checkpoint_job.h"
#include "tests/support/counting_backend.h"

namespace shampoo::test {
namespace {

/// Takes two steps in each one of the generator's.
Trainee critic_trainee() {
  Trainee trainee = everything();
  trainee.shapes.push_back({6, 11});
  return trainee;
}

/// Uploads fail once it says so.
class DyingBackend : public CountingBackend {
 public:
  using CountingBackend::CountingBackend;
  void upload(void* to, const void* from_host, std::size_t bytes) override {
    if (dies) throw std::runtime_error("the device is gone");
    CountingBackend::upload(to, from_host, bytes);
  }
  bool dies = false;
};

struct Ends {
  End<float> generator, critic;
  bool operator==(const Ends&) const = default;
};

/// Of one rank. Both models have tensor0, tensor1, ..., and a backend of their own.
class Adversaries {
 public:
  explicit Adversaries(Communicator& communicator, const Trainee& critic_model = critic_trainee(),
                       Communicator* of_critic = nullptr)
      : generator(communicator, small, {},
                  {.gradients = {.loss_scaling = DynamicLossScale{.interval = 2}}}),
        critic(of_critic ? *of_critic : communicator, critic_model, {},
               {.gradients = {.spike_guard = {.window = 4}}}, &critic_backend) {}

  Optimizers list() { return {{"generator", *generator.optimizer}, {"critic", *critic.optimizer}}; }
  UserState user() {
    UserState all;
    const Optimizers both = list();
    for (const auto& [name, optimizer] : both.all())
      for (UserTensor& tensor : user_state_of(job_of(name)).tensors) {
        tensor.name.insert(0, name + ".");
        all.tensors.push_back(std::move(tensor));
      }
    all.values["phase"] = phase;
    return all;
  }
  void train(int first, int last) {
    for (int step = first; step < last; ++step) {
      generator.train(step, step + 1);
      critic.train(2 * step, 2 * step + 2);
    }
  }
  Ends ends() { return {end_of(generator), end_of(critic)}; }
  /// What must not change where a load is refused.
  auto everything_here() {
    return std::tuple(generator.optimizer->state_dict(), generator.values(),
                      critic.optimizer->state_dict(), critic.values());
  }

  std::unique_ptr<kernels::Backend> cpu = cpu_kernels({.threads = 1});
  DyingBackend critic_backend{*cpu};
  Job<float> generator, critic;
  std::string phase = "warm up";

 private:
  Job<float>& job_of(const std::string& name) { return name == "critic" ? critic : generator; }
};

class SeveralOptimizers : public testing::Test {
 protected:
  static void run(int ranks, const std::function<void(Adversaries&, Communicator&)>& body) {
    run_ranks(ranks, [&](Communicator& communicator) {
      Adversaries both(communicator);
      body(both, communicator);
    });
  }
  static Ends train(int ranks, int steps) {
    Ends ends;
    run(ranks, [&](Adversaries& both, Communicator& communicator) {
      both.train(0, steps);
      Ends own = both.ends();
      if (communicator.rank() == 0) ends = std::move(own);
    });
    return ends;
  }
  void save_on(int ranks) {
    run(ranks, [&](Adversaries& both, Communicator&) {
      both.train(0, steps_before);
      EXPECT_EQ(save(both.list(), root_, both.user()), root_ / "step-7") << "of the first";
    });
  }
  /// The message of a load, which leaves everything as it is.
  template <typename Error = std::invalid_argument>
  static std::string refusal(Adversaries& both, const std::function<void()>& load) {
    const auto before = both.everything_here();
    const std::string message = error_of<Error>(load);
    EXPECT_TRUE(both.everything_here() == before) << message;
    EXPECT_EQ(both.phase, "warm up");
    return message;
  }
  CompleteCheckpoint checkpoint(std::int64_t step) const {
    for (const auto& complete : list_checkpoints(root_).complete)
      if (complete.step == step) return complete;
    throw std::out_of_range(std::to_string(step));
  }

  TemporaryFolder folder_;
  const std::filesystem::path root_ = folder_.path() / "root";
};

TEST_F(SeveralOptimizers, GoOnTogetherOnOtherRanksToTheSameBits) {
  const Ends undisturbed = train(1, steps_before + steps_after);
  ASSERT_GT(undisturbed.generator.state.progress.loss_scale, 65536);
  ASSERT_EQ(undisturbed.critic.state.progress.gradient_norms.size(), 4U);
  for (const int saving : {1, 3}) {
    save_on(saving);
    for (const int loading : {1, 2, 3})
      run(loading, [&](Adversaries& both, Communicator&) {
        UserState user = both.user();
        user.values["phase"] = "";
        const auto resumed = resume(both.list(), root_, user);
        ASSERT_TRUE(resumed);
        EXPECT_TRUE(resumed->state.missing.empty());
        EXPECT_EQ(user.values["phase"], UserValue("warm up"));
        both.train(steps_before, steps_before + steps_after);
        EXPECT_TRUE(both.ends() == undisturbed) << saving << " to " << loading << " ranks";
      });
    std::filesystem::remove_all(root_);
  }
}

TEST_F(SeveralOptimizers, AreSavedAtOneMomentWhileTheyGoOn) {
  const Ends undisturbed = train(1, steps_before + steps_after);
  run(3, [&](Adversaries& both, Communicator&) {
    AsyncCheckpointer checkpointer(both.list(), {.while_saving = WhileSaving::queue});
    both.train(0, 3);
    checkpointer.start(root_, both.user());
    both.train(3, steps_before);
    Snapshot copy = snapshot(both.list(), both.user());
    EXPECT_EQ(copy.step(), steps_before);
    EXPECT_GT(copy.bytes(),
              both.generator.optimizer->state_bytes() + both.critic.optimizer->state_bytes());
    both.train(steps_before, steps_before + 1);
    checkpointer.start(std::move(copy), root_);
    both.train(steps_before + 1, steps_before + 2);
    EXPECT_EQ(checkpointer.wait(), root_ / "step-7");

    AsyncCheckpointer other({{"a", *both.generator.optimizer}, {"b", *both.critic.optimizer}});
    expect_says(error_of<std::invalid_argument>(
                    [&] { other.start(snapshot(both.list()), root_, {.step = 20}); }),
                {"snapshot is not of these optimizers"});
  });
  EXPECT_EQ(checkpoint(7).parent, checkpoint(3).save);
  run(2, [&](Adversaries& both, Communicator&) {
    UserState user = both.user();
    EXPECT_EQ(load(both.list(), root_ / "step-3", user).step, 3);
    both.train(3, steps_before + steps_after);
    EXPECT_TRUE(both.ends() == undisturbed);
  });
  run(1, [&](Adversaries& both, Communicator&) {
    UserState user = both.user();
    EXPECT_EQ(load(both.list(), root_, user).step, steps_before);
    both.train(steps_before, steps_before + steps_after);
    EXPECT_TRUE(both.ends() == undisturbed);
  });
}

TEST_F(SeveralOptimizers, KeepEverythingWhereTheLastOneDoesNotFit) {
  save_on(3);
  Trainee other = critic_trainee();
  other.shapes.back() = {6, 12};
  run_ranks(2, [&](Communicator& communicator) {
    Adversaries both(communicator, other);
    both.train(0, 1);
    const std::string who = "tensor" + std::to_string(other.shapes.size() - 1);
    expect_says(refusal(both, [&] { resume(both.list(), root_); }),
                {"optimizer 'critic'", "'" + who + "'", "(6, 12)", "(6, 11)"});
  });
  run(2, [&](Adversaries& both, Communicator&) {
    both.train(0, 1);
    const auto before = both.everything_here();
    {
      const Evaluation evaluation = both.critic.optimizer->evaluate();
      expect_says(error_of<std::logic_error>([&] { resume(both.list(), root_); }),
                  {"load", "Evaluation"});
      expect_says(error_of<std::logic_error>([&] { save(both.list(), root_); }),
                  {"save", "Evaluation"});
    }
    EXPECT_TRUE(both.everything_here() == before);
  });
}

TEST_F(SeveralOptimizers, AreDisabledTogetherWhereOneCannotBeReplaced) {
  save_on(2);
  run(1, [&](Adversaries& both, Communicator&) {
    both.critic_backend.dies = true;
    expect_says(error_of<CommunicationError>([&] { load(both.list(), root_); }),
                {"could not replace the state", "the device is gone", "no longer"});
    both.critic_backend.dies = false;
    EXPECT_THROW(both.generator.train(0, 1), CommunicationError);
    EXPECT_THROW(both.critic.train(0, 1), CommunicationError);
    load(both.list(), root_);
    both.train(steps_before, steps_before + 1);
  });
  run(2, [&](Adversaries& both, Communicator& communicator) {
    both.critic_backend.dies = communicator.rank() == 1;
    const auto load_and_step = [&] {
      load(both.list(), root_);
      both.generator.train(0, 1);
    };
    expect_says(error_of<CommunicationError>(load_and_step), {"rank 1", "the device is gone"});
    EXPECT_THROW(both.critic.train(0, 1), CommunicationError);
  });
}

TEST_F(SeveralOptimizers, AreThoseOfTheCheckpoint) {
  save_on(2);
  run(2, [&](Adversaries& both, Communicator&) {
    save(*both.critic.optimizer, folder_.path() / "alone");
    Optimizer &generator = *both.generator.optimizer, &critic = *both.critic.optimizer;
    const CheckpointOptions relaxed{.state = {.strict = false}};
    const std::string here = "the checkpoint has 'generator', 'critic'";
    using List = std::vector<NamedOptimizer>;
    const auto refused = [&](const List& list, const CheckpointOptions& options,
                             const std::vector<std::string>& says) {
      expect_says(refusal(both, [&] { load(list, root_, options); }), says);
    };
    refused({{"generator", generator}, {"Critic", critic}}, {}, {here, "'generator', 'Critic'"});
    refused({{"generator", generator}, {"Critic", critic}}, relaxed, {here, "'Critic'"});
    refused({{"critic", critic}}, {}, {here, "to be loaded are 'critic'", "strict = false"});
    refused({{"generator", generator}, {"critic", critic}, {"critic", critic}}, {},
            {"optimizer 'critic'", "unique"});
    for (const CheckpointOptions& options : {CheckpointOptions(), relaxed}) {
      expect_says(refusal(both, [&] { load(critic, root_, options); }), {here, "without a name"});
      expect_says(refusal(both, [&] { load(both.list(), folder_.path() / "alone", options); }),
                  {"has one without a name", "'generator', 'critic'"});
    }
  });
}

TEST_F(SeveralOptimizers, HaveAListThatIsRight) {
  run_ranks(2, [&](Communicator& communicator) {
    const auto reversed = communicator.split(0, -communicator.rank());
    Adversaries both(communicator, critic_trainee(), reversed.get());
    Optimizer &generator = *both.generator.optimizer, &critic = *both.critic.optimizer;
    using List = std::vector<NamedOptimizer>;
    const std::vector<std::pair<List, std::vector<std::string>>> wrong{
        {{}, {"at least one"}},
        {{{"", generator}}, {"optimizer ''", "letters"}},
        {{{"a", generator}, {"a", critic}}, {"'a'", "unique"}},
        {{{"a", generator}, {"b", generator}}, {"'b'", "twice"}},
        {{{"a/b", generator}}, {"'a/b'", "letters"}},
        {{{".a", generator}}, {"'.a'", "letters"}},
        {{{"a", generator}, {"b", critic}}, {"'b'", "communicator", "same ranks as that of 'a'"}}};
    for (const auto& entry : wrong) {
      const List& list = entry.first;
      const std::vector<std::string>& says = entry.second;
      expect_says(error_of<std::invalid_argument>([&] { save(list, root_); }), says);
      expect_says(error_of<std::invalid_argument>([&] { resume(list, root_); }), says);
      expect_says(error_of<std::invalid_argument>([&] { snapshot(list); }), says);
      expect_says(error_of<std::invalid_argument>([&] { AsyncCheckpointer(list).start(root_); }),
                  says);
    }
    const bool first = communicator.rank() == 0;
    expect_says(error_of<CommunicationError>([&] {
                  save({{first ? "a" : "b", generator}}, root_);
                }),
                {"optimizer 'a'", "optimizer 'b'"});
    expect_says(error_of<CommunicationError>([&] {
                  resume({{first ? "a" : "b", generator}}, root_);
                }),
                {"'a'", "'b'"});
    both.train(0, 1);
  });
  EXPECT_FALSE(std::filesystem::exists(root_ / "step-0"));
}

TEST_F(SeveralOptimizers, AreLoadedOneByOneWhereThatIsAskedFor) {
  const Ends undisturbed = train(1, steps_before + steps_after);
  save_on(3);
  run(2, [&](Adversaries& both, Communicator&) {
    UserState user = both.user();
    const auto untouched = both.generator.optimizer->state_dict();
    const LoadedCheckpoint loaded =
        load({{"critic", *both.critic.optimizer}}, root_, user, {.state = {.strict = false}});
    EXPECT_TRUE(loaded.state.missing.empty());
    EXPECT_EQ(both.generator.optimizer->state_dict(), untouched);
    both.critic.train(2 * steps_before, 2 * (steps_before + steps_after));
    EXPECT_TRUE(end_of(both.critic) == undisturbed.critic);
  });
}

TEST_F(SeveralOptimizers, FindParametersByTheNamesOfTheCheckpoint) {
  save_on(1);
  run(1, [&](Adversaries& both, Communicator&) {
    std::vector<std::string> asked;
    const auto rename = [&](const std::string& saved) {
      asked.push_back(saved);
      return saved == "critic/tensor0" ? std::string("other") : saved.substr(saved.find('/') + 1);
    };
    const LoadedCheckpoint loaded =
        load(both.list(), root_,
             CheckpointOptions{.state = {.strict = false, .prefix = "tensor", .rename = rename}});
    EXPECT_EQ(asked.size(), small.shapes.size() + critic_trainee().shapes.size());
    EXPECT_EQ(loaded.state.missing, std::vector<std::string>{"critic/tensor0"});
  });
}

TEST_F(SeveralOptimizers, MayHaveAPrefixInOneOfThem) {
  save_on(2);
  const Trainee critic = critic_trainee();
  ASSERT_GT(critic.shapes.size(), small.shapes.size());
  const std::string last = "tensor" + std::to_string(critic.shapes.size() - 1);
  run(2, [&](Adversaries& both, Communicator&) {
    const StateDict untouched = both.generator.optimizer->state_dict();
    EXPECT_EQ(both.critic.optimizer->steps(last), 0);
    load(both.list(), root_, {.state = {.prefix = last}});
    EXPECT_GT(both.critic.optimizer->steps(last), 0);
    EXPECT_EQ(both.generator.optimizer->state_dict().tensors, untouched.tensors);
    expect_says(refusal(both, [&] { load(both.list(), root_, {.state = {.prefix = last + "0"}}); }),
                {"LoadOptions::prefix '" + last + "0'", "strict = false"});
  });
}

TEST_F(SeveralOptimizers, ShareTheLineageOfTheirCheckpoints) {
  save_on(2);
  run(2, [&](Adversaries& both, Communicator&) {
    save(both.list(), root_, {}, {.step = 8});
    save(both.list(), root_, {}, {.step = 9});
  });
  for (const char* broken : {"step-9", "step-8"}) {  // which only a checksum shows
    const auto path = root_ / broken / "shard-00001-of-00002.safetensors";
    std::string bytes = content_of(path);
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    std::ofstream(path, std::ios::binary) << bytes;
  }
  run(2, [&](Adversaries& both, Communicator&) {
    EXPECT_EQ(resume(both.list(), root_)->passed_over.size(), 2U);
    // As the critic went on without step-8, too, it may be replaced.
    EXPECT_EQ(save(*both.critic.optimizer, root_, {}, {.step = 8}), root_ / "step-8");
    EXPECT_EQ(save(both.list(), root_, {}, {.step = 9, .keep_last = 1}), root_ / "step-9");
    const auto steps = list_checkpoints(root_).complete;
    EXPECT_EQ(steps.size(), 2U) << "that which they were loaded from stays";
  });
  EXPECT_EQ(checkpoint(9).parent, checkpoint(7).save) << "of the generator, the first";
}

TEST_F(SeveralOptimizers, AreReadWithoutAnOptimizer) {
  save_on(3);
  const Ends ends = train(1, steps_before);
  const SavedState saved = read_state_dict(root_);
  EXPECT_EQ(saved.progress(), ends.generator.state.progress);
  const std::map<std::string, Progress> progress{{"critic", ends.critic.state.progress},
                                                 {"generator", ends.generator.state.progress}};
  EXPECT_EQ(saved.optimizers(), progress);
  for (const auto* end : {&ends.generator, &ends.critic})
    for (const StateTensor& tensor : end->state.tensors) {
      const std::string scope = end == &ends.critic ? "critic/" : "generator/";
      const auto found = saved.find(scope + tensor.name());
      ASSERT_TRUE(found) << tensor.name();
      if (tensor.layout == StateLayout::symmetric) continue;  // comes unpacked
      EXPECT_TRUE(std::ranges::equal(found->elements<std::byte>(), tensor.bytes)) << found->name;
    }
  EXPECT_FALSE(saved.find("tensor0/filtered_gradient"));
}

}  // namespace
}  // namespace shampoo::test
