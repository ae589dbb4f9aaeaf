// SPDX-License-Identifier: Apache-2.0
// What first users do wrong: each error says what is wrong, and what to do. That nothing has
// changed then is tested where the rules are.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <type_traits>

#include "tests/shampoo/toy_model.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/thrown.h"

namespace shampoo::test {
namespace {

class AMistake : public testing::Test {
 protected:
  using Body = std::function<void(Communicator&, Backend&, ToyModel<float>&)>;

  /// What a job of so many ranks ends with; each has the same two tensors.
  static std::string error(int ranks, const Body& body) {
    return error_of<std::exception>([&] {
      run_ranks(ranks, [&](Communicator& communicator) {
        communicator.set_deadline(std::chrono::seconds(20));
        const auto backend = cpu_backend({.threads = 1});
        ToyModel<float> model({{4, 3}, {5}});
        body(communicator, *backend, model);
      });
    });
  }

  /// Of one rank whose group was changed before the optimizer saw it.
  static std::string error_of_group(const std::function<void(ParameterGroup&)>& spoil) {
    return error(1, [&](Communicator& ranks, Backend& backend, ToyModel<float>& model) {
      ParameterGroup group = model.group();
      spoil(group);
      Optimizer(backend, ranks, {group}).step();
    });
  }

  static void expect_said(const std::string& error, const std::string& wrong,
                          const std::string& remedy) {
    EXPECT_NE(error.find(wrong), std::string::npos) << "'" << wrong << "' in: " << error;
    EXPECT_NE(error.find(remedy), std::string::npos) << "'" << remedy << "' in: " << error;
  }
};

static_assert(!std::is_copy_constructible_v<Group> && !std::is_copy_assignable_v<Group>,
              "auto group = optimizer.group(0) would set the rates of a copy");

TEST_F(AMistake, InAShapeIsNamedWithItsSide) {
  expect_said(error_of_group([](ParameterGroup& group) {
                group.parameters[0].shape = {4, -3};
              }),
              "'tensor0': shape", "must be >= 0, got -3");
}

TEST_F(AMistake, InATypeIsNamedWithThoseThatThereAre) {
  expect_said(error_of_group([](ParameterGroup& group) {
                group.parameters[1].gradient.type = static_cast<Type>(9);
              }),
              "'tensor1': gradient.type", "float64, float32, bfloat16 or float16");
}

TEST_F(AMistake, InANameIsNamed) {
  expect_said(error_of_group([](ParameterGroup& group) { group.parameters[1].name = "tensor0"; }),
              "'tensor0': name", "must be unique");
  expect_said(error_of_group([](ParameterGroup& group) { group.parameters[1].name = "e\xe9"; }),
              "group 0, parameter 'e\xe9': name", "must be UTF-8");
  EXPECT_EQ(error_of_group([](ParameterGroup& group) { group.parameters[1].name = "e\xc3\xa9"; }),
            "");
}

TEST_F(AMistake, InTheTypeOfAGradientThatMovesIsNamed) {
  const std::string said =
      error(1, [](Communicator& ranks, Backend& backend, ToyModel<float>& model) {
        Optimizer optimizer(backend, ranks, {model.group()});
        std::vector<float> moved(12);
        optimizer.group(0).set_gradient(0, moved.data());
        EXPECT_EQ(optimizer.group(0).parameters()[0].gradient.data, moved.data());
        optimizer.group(0).set_gradient(0, static_cast<float*>(nullptr));
        EXPECT_EQ(optimizer.group(0).parameters()[0].gradient.data, nullptr);
        std::vector<double> doubles(12);
        optimizer.group(0).set_gradient(0, doubles.data());
      });
  expect_said(said, "'tensor0': gradient.type", "that of the registration, float32, got float64");
}

TEST_F(AMistake, InTheSumsOfGradientsForAGroupIsNamed) {
  const auto said = [](ParameterGroup group) {
    return error(1, [&](Communicator& ranks, Backend& backend, ToyModel<float>& model) {
      std::vector<float> values(12, 1.0f), gradients(12);
      std::vector<std::uint16_t> narrow(12);
      group.parameters = {{.name = "tensor0", .shape = {2, 6}, .value = values.data()}};
      Parameter& parameter = group.parameters[0];
      parameter.gradient = gradients.data();
      if (group.label == "narrow") {
        parameter.shape = {4, 3};
        parameter.gradient = {narrow.data(), Type::bfloat16};
      }
      Optimizer optimizer(backend, ranks, {group});
      GradientAccumulator sums(backend, model.group().parameters);
      sums.add();
      sums.set_gradients(optimizer.group(0));
    });
  };
  expect_said(said({}), "group 0, parameter 'tensor0': shape", "of the sums, (4, 3), got (2, 6)");
  expect_said(said({.label = "narrow"}), "'tensor0': gradient.type", "bfloat16, got float32");
}

TEST_F(AMistake, InTheSumsOfOneGradientLeavesThoseBeforeItAlone) {
  const auto backend = cpu_backend({.threads = 1});
  const auto ranks = single_rank_communicator();
  ToyModel<float> model({{4, 3}, {6}}), other({{4, 3}, {5}});
  Optimizer optimizer(*backend, *ranks, {model.group()});
  GradientAccumulator sums(*backend, other.group().parameters);
  sums.add();
  EXPECT_THROW(sums.set_gradients(optimizer.group(0)), std::invalid_argument);
  EXPECT_EQ(optimizer.group(0).parameters()[0].gradient.data, model.parameter(0).gradient.data);
}

TEST_F(AMistake, InARateIsNamedWithItsRange) {
  expect_said(error_of_group([](ParameterGroup& group) {
                group.rates.learning_rate = std::numeric_limits<double>::quiet_NaN();
              }),
              "learning_rate", "must be in [0, 2^128), got nan");
  expect_said(error_of_group([](ParameterGroup& group) { group.rates.weight_decay = 1e39; }),
              "weight_decay", "must be in [0, 2^128), got 1e+39");
}

TEST_F(AMistake, WithGradientsThatNobodyAveragedTellsToDoIt) {
  expect_said(error(3,
                    [](Communicator& ranks, Backend& backend, ToyModel<float>& model) {
                      Optimizer optimizer(backend, ranks, {model.group()});
                      model.tensors[0].gradient[1] += static_cast<float>(ranks.rank());
                      optimizer.step();
                    }),
              "the ranks do not have the same gradients", "average them before every step");
}

TEST_F(AMistake, WithAnAverageOverOtherRanksTellsWhoseItHasToBe) {
  expect_said(error(3,
                    [](Communicator& ranks, Backend& backend, ToyModel<float>& model) {
                      Optimizer optimizer(backend, ranks, {model.group()});
                      model.tensors[0].gradient[1] += static_cast<float>(ranks.rank());
                      const auto two = ranks.split(ranks.rank() / 2, 0);
                      two->average({TensorSpan{model.tensors[0].gradient.data(), 12}});
                      optimizer.step();
                    }),
              "the ranks do not have the same gradients", "over all ranks of the optimizer");
}

TEST_F(AMistake, WithAnAverageThatOneRankForgotNamesBothCalls) {
  const std::string said =
      error(3, [](Communicator& ranks, Backend& backend, ToyModel<float>& model) {
        Optimizer optimizer(backend, ranks, {model.group()});
        if (ranks.rank() > 0)
          ranks.average({TensorSpan{model.tensors[0].gradient.data(), 12, Type::float32}});
        optimizer.step();
      });
  expect_said(said, "rank 0 is in all_gather", "ranks 1 and 2 are in all_to_all");
  expect_said(said, "step 1", "average");
}

TEST_F(AMistake, WithValuesThatNobodyBroadcastTellsToDoIt) {
  expect_said(error(2,
                    [](Communicator& ranks, Backend& backend, ToyModel<float>& model) {
                      model.tensors[0].value[0] += static_cast<float>(ranks.rank());
                      Optimizer(backend, ranks, {model.group()}).step();
                    }),
              "'tensor0': its value", "broadcast values before the first");
}

TEST_F(AMistake, WithAnotherCommunicatorNamesTheRankThatIsNotInThisOne) {
  expect_said(
      error(2,
            [](Communicator& ranks, Backend& backend, ToyModel<float>& model) {
              const auto alone = single_rank_communicator();
              Optimizer(backend, ranks.rank() == 1 ? *alone : ranks, {model.group()}).step();
            }),
      "all_gather (collective 1, adding groups)", "rank 1 has left");
  expect_said(error(1,
                    [](Communicator&, Backend& backend, ToyModel<float>& model) {
                      const auto elsewhere = single_rank_communicator(MemoryKind::cuda);
                      Optimizer(backend, *elsewhere, {model.group()}).step();
                    }),
              "communicator: must work in the backend's memory", "join(backend)");
}

TEST_F(AMistake, WithMemoryThatTwoTensorsShareNamesBoth) {
  expect_said(error_of_group([](ParameterGroup& group) {
                group.parameters[1].value = group.parameters[0].value;
              }),
              "'tensor1': value: overlaps the value of 'tensor0'", "must not share memory");
}

TEST_F(AMistake, WithACheckpointTellsWhatThereIs) {
  const TemporaryFolder folder;
  const auto load_in = [&](const std::filesystem::path& path) {
    return error(1, [&](Communicator& ranks, Backend& backend, ToyModel<float>& model) {
      Optimizer optimizer(backend, ranks, {model.group()});
      UserState user{.rank_values = {{"position", std::int64_t{0}}}};
      load(optimizer, path, user);
    });
  };
  expect_said(load_in(folder.path()), "there is no checkpoint", "resume() accepts that");
  EXPECT_EQ(error(2,
                  [&](Communicator& ranks, Backend& backend, ToyModel<float>& model) {
                    Optimizer optimizer(backend, ranks, {model.group()});
                    optimizer.step();
                    save(optimizer, folder.path(),
                         {.rank_values = {{"position", std::int64_t{ranks.rank()}}}});
                  }),
            "");
  expect_said(load_in(folder.path() / "step-7"), "step-7: there is no checkpoint",
              "shampoo-checkpoint list " + folder.path().string());
  expect_said(load_in(folder.path()), "'position': was saved by each of 2 ranks, and there are 1",
              "OtherRanks::keep");
}

}  // namespace
}  // namespace shampoo::test
