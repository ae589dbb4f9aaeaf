// SPDX-License-Identifier: Apache-2.0
#include "shampoo/user_state.h"

#include <gtest/gtest.h>

#include <limits>

#include "shampoo/checkpoint/snapshot.h"
#include "tests/shampoo/checkpoint/checkpoint_job.h"

namespace shampoo::test {
namespace {

using checkpoint::Dtype;

class UserStateOfATrainer : public testing::Test {
 protected:
  UserState user() {
    return {.tensors = {{"mean", {2, 3}, mean_.data()},
                        {"nothing", {0, 4}, Tensor(nullptr, Type::float16)},
                        {"seen", {}, seen_.data()},
                        {"generator", {2, 2}, generator_.data()},
                        {"tensor0/factor/0/0.0", {}, scale_.data()},
                        {"narrow", {5}, Tensor(narrow_.data(), Type::bfloat16)}},
            .values = {{"position", std::int64_t{-1} << 63},
                       {"best", 0.1},
                       {"phase", std::string("warm up\n\"ä\"")}}};
  }
  void change() {
    mean_.assign(6, 0);
    scale_ = {0};
    narrow_.assign(5, 0);
    seen_ = {0};
    generator_.assign(4, 0);
  }
  std::string refusal(UserState& asked) {
    Alone alone;
    const std::vector<float> mean = mean_;
    const StateDict state = alone.job.optimizer->state_dict();
    const std::map<std::string, UserValue> values = asked.values;
    const std::string message =
        error_of<std::invalid_argument>([&] { load(*alone.job.optimizer, root_, asked); });
    EXPECT_EQ(mean_, mean);
    EXPECT_EQ(asked.values, values);
    EXPECT_EQ(alone.job.optimizer->state_dict(), state);
    return message;
  }

  TemporaryFolder folder_;
  const std::filesystem::path root_ = folder_.path() / "root";
  std::vector<float> mean_{1, 2, 3, 4, 5, 6};
  std::vector<double> scale_{0.3};
  std::vector<std::uint16_t> narrow_{1, 2, 3, 4, 0xffff};
  std::vector<std::int64_t> seen_{std::numeric_limits<std::int64_t>::min() + 1};
  std::vector<std::uint8_t> generator_{0, 127, 128, 255};
};

TEST_F(UserStateOfATrainer, ComeBackOnAnyNumberOfRanks) {
  for (const int ranks : {1, 3}) {
    run_ranks(ranks, [&](Communicator& communicator) {
      Job<float> job(communicator, small, {});
      save(*job.optimizer, root_, user(), {.step = ranks});
    });
    const UserState saved = user();
    const auto tensors = std::tuple(mean_, scale_, narrow_, seen_, generator_);
    change();
    Alone alone;
    UserState asked = user();
    asked.values = {{"position", std::int64_t{0}}, {"best", 0.0}, {"phase", std::string()}};
    load(*alone.job.optimizer, root_, asked);
    EXPECT_EQ(std::tuple(mean_, scale_, narrow_, seen_, generator_), tensors);
    EXPECT_EQ(asked.values, saved.values);
  }
}

TEST_F(UserStateOfATrainer, AreOfAnyTypeThatFilesHave) {
  constexpr std::size_t bytes_of_each = 24;  // whole elements of 64, 6 and 4 bits
  std::vector<std::vector<std::uint8_t>> tensors;
  const auto all = [&] {
    UserState user;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      const checkpoint::DtypeFacts& facts = checkpoint::dtypes()[t];
      const auto count = static_cast<std::int64_t>(bytes_of_each * 8) / facts.bits;
      user.tensors.push_back({std::string(facts.name), {count}, {tensors[t].data(), facts.dtype}});
    }
    return user;
  };
  for (std::size_t t = 0; t < checkpoint::dtypes().size(); ++t)
    tensors.emplace_back(bytes_of_each, static_cast<std::uint8_t>(t + 1));
  const auto saved = tensors;
  run_ranks(2, [&](Communicator& communicator) {
    Job<float> job(communicator, small, {});
    save(*job.optimizer, root_, all());
  });
  for (auto& tensor : tensors) tensor.assign(bytes_of_each, 0);
  Alone alone;
  UserState asked = all();
  load(*alone.job.optimizer, root_, asked);
  EXPECT_EQ(tensors, saved);
}

TEST_F(UserStateOfATrainer, MustBeWhatWasSaved) {
  {
    Alone alone;
    save(*alone.job.optimizer, root_, user());
  }
  UserState asked = user();
  asked.tensors[0].shape = {3, 2};
  expect_says(refusal(asked), {"'mean'", "shape", "(2, 3)", "(3, 2)"});
  asked = user();
  asked.tensors[5].tensor.dtype = Dtype::f16;
  expect_says(refusal(asked), {"'narrow'", "dtype", "BF16", "F16"});
  asked = user();
  asked.tensors[2].tensor.dtype = Dtype::u64;  // as many bytes
  expect_says(refusal(asked), {"'seen'", "dtype", "I64", "U64"});
  asked = user();
  asked.values["best"] = std::int64_t{1};
  expect_says(refusal(asked), {"'best'", "an integer", "a number"});
  asked = user();
  asked.values.erase("best");
  asked.values["worst"] = 1.0;
  asked.tensors.erase(asked.tensors.begin());
  expect_says(refusal(asked), {"missing 'worst'", "not asked for 'mean', 'best'", "strict"});

  Alone alone;
  const LoadedCheckpoint loaded =
      load(*alone.job.optimizer, root_, asked, {.state = {.strict = false}});
  EXPECT_EQ(loaded.missing_user_state, std::vector<std::string>{"worst"});
  EXPECT_EQ(loaded.unexpected_user_state, (std::vector<std::string>{"mean", "best"}));
  EXPECT_EQ(asked.values.at("worst"), UserValue(1.0));
  EXPECT_TRUE(load(*alone.job.optimizer, root_).unexpected_user_state.empty()) << "nobody asked";
}

TEST_F(UserStateOfATrainer, AreValidatedByName) {
  Alone alone;
  const auto refused = [&](const auto& spoil) {
    UserState bad = user();
    spoil(bad.tensors[0]);
    const std::string message =
        error_of<std::invalid_argument>([&] { save(*alone.job.optimizer, root_, bad); });
    EXPECT_FALSE(std::filesystem::exists(root_));
    return message;
  };
  using E = UserTensor;
  expect_says(refused([](E& e) { e.name = ""; }), {"name", "empty"});
  expect_says(refused([](E& e) { e.name = "narrow"; }), {"'narrow'", "unique"});
  expect_says(refused([](E& e) { e.shape[0] = -2; }), {"'mean'", "shape"});
  expect_says(refused([](E& e) { e.tensor.data = nullptr; }), {"'mean'", "data"});
  expect_says(refused([](E& e) { e.tensor.strides = {1, 2}; }), {"'mean'", "strides"});
  expect_says(refused([](E& e) { e.tensor.dtype = static_cast<Dtype>(99); }), {"'mean'", "dtype"});
  expect_says(refused([](E& e) {
                e.shape = {3};
                e.tensor.dtype = Dtype::f4;
              }),
              {"'mean'", "(3)", "F4", "whole bytes"});
  expect_says(refused([](E& e) { e.shape = {std::int64_t{1} << 62, 4}; }), {"'mean'", "shape"});
  for (const char* name : {"name", "\xe4"}) {
    UserState latin = user();
    latin.values[name] = std::string("\xe4");
    EXPECT_THROW(save(*alone.job.optimizer, root_, latin), std::invalid_argument);
  }
  EXPECT_EQ(latest_checkpoint(root_), std::nullopt);
  save(*alone.job.optimizer, root_, user());
}

TEST_F(UserStateOfATrainer, ThatDifferBetweenRanksAreRefused) {
  std::array<std::string, 2> messages;
  run_ranks(2, [&](Communicator& communicator) {
    Job<float> job(communicator, small, {});
    UserState own = user();
    if (communicator.rank() == 1) own.values["best"] = 0.2;
    messages[static_cast<std::size_t>(communicator.rank())] =
        error_of<CommunicationError>([&] { save(*job.optimizer, root_, own); });
    save(*job.optimizer, root_, user());
  });
  expect_says(messages[0], {"rank 1 has", "best", "0.2"});
  EXPECT_EQ(messages[0], messages[1]);
}

TEST_F(UserStateOfATrainer, OfOneTensorThatDiffersBetweenRanksIsRefusedByName) {
  for (const std::size_t size : {6UL, std::size_t{5} << 20}) {  // the larger one in parts
    std::array<std::string, 3> messages;
    run_ranks(3, [&](Communicator& communicator) {
      Job<float> job(communicator, small, {});
      std::vector<float> statistics(size, 0.5F);
      const UserState own{
          .tensors = {{"mean", {6}, mean_.data()},
                      {"statistics", {static_cast<std::int64_t>(size)}, statistics.data()}}};
      if (communicator.rank() == 2) statistics.back() = 1;
      messages[static_cast<std::size_t>(communicator.rank())] =
          error_of<CommunicationError>([&] { save(*job.optimizer, root_, own); });
      statistics.back() = 0.5F;
      save(*job.optimizer, root_, own, {.step = static_cast<std::int64_t>(size)});
    });
    expect_says(messages[0], {"rank 2 has", "ranks 0 and 1 have", "'statistics'", "checksum"});
    EXPECT_EQ(messages[0], messages[2]);
  }
}

/// A generator of each rank, of a length of its own, and a position.
struct OfARank {
  explicit OfARank(int rank)
      : generator(static_cast<std::size_t>(rank) + 2, static_cast<std::uint8_t>(rank + 7)),
        user{.tensors = {{"generator", {rank + 2}, generator.data(), Sharding::per_rank}},
             .rank_values = {{"position", std::int64_t{rank} * 1000}}} {}
  std::vector<std::uint8_t> generator;
  UserState user;
};

TEST_F(UserStateOfATrainer, OfEachRankComesBackToIt) {
  run_ranks(3, [&](Communicator& communicator) {
    Job<float> job(communicator, small, {});
    save(*job.optimizer, root_, OfARank(communicator.rank()).user);
  });
  run_ranks(3, [&](Communicator& communicator) {
    Job<float> job(communicator, small, {});
    const OfARank saved(communicator.rank());
    OfARank asked(communicator.rank());
    std::ranges::fill(asked.generator, std::uint8_t{0});
    asked.user.rank_values["position"] = std::int64_t{-1};
    const LoadedCheckpoint loaded = load(*job.optimizer, root_, asked.user);
    EXPECT_EQ(asked.generator, saved.generator);
    EXPECT_EQ(asked.user.rank_values, saved.user.rank_values);
    EXPECT_TRUE(loaded.missing_user_state.empty());
  });
}

TEST_F(UserStateOfATrainer, OfEachRankIsNotLoadedByAnotherNumberOfRanksUnlessAsked) {
  run_ranks(3, [&](Communicator& communicator) {
    Job<float> job(communicator, small, {});
    save(*job.optimizer, root_, OfARank(communicator.rank()).user);
  });
  run_ranks(2, [&](Communicator& communicator) {
    Job<float> job(communicator, small, {});
    OfARank asked(communicator.rank());
    std::ranges::fill(asked.generator, std::uint8_t{0});
    const std::map<std::string, UserValue> before = asked.user.rank_values;
    const std::string message =
        error_of<std::invalid_argument>([&] { load(*job.optimizer, root_, asked.user); });
    expect_says(message, {"'generator': was saved by each of 3 ranks, and there are 2",
                          "'position': was saved by each of 3 ranks", "OtherRanks::keep"});
    const LoadedCheckpoint loaded =
        load(*job.optimizer, root_, asked.user, {.other_ranks = OtherRanks::keep});
    EXPECT_EQ(loaded.missing_user_state, (std::vector<std::string>{"generator", "position"}));
    EXPECT_EQ(asked.generator, std::vector<std::uint8_t>(asked.generator.size()));
    EXPECT_EQ(asked.user.rank_values, before);
    asked.user.values["epoch"] = std::int64_t{3};
    expect_says(error_of<std::invalid_argument>([&] {
                  load(*job.optimizer, root_, asked.user, {.other_ranks = OtherRanks::keep});
                }),
                {"missing 'epoch';"});
    asked.user.values.clear();
    asked.user.tensors[0].sharding = Sharding::shared;
    asked.user.rank_values.clear();
    expect_says(error_of<std::invalid_argument>([&] { load(*job.optimizer, root_, asked.user); }),
                {"'generator': sharding", "per rank, not shared"});
  });
}

TEST_F(UserStateOfATrainer, SaysAllThatDoesNotFitAtOnce) {
  {
    Alone alone;
    save(*alone.job.optimizer, root_, user());
  }
  UserState asked = user();
  asked.tensors[0].shape = {3, 2};
  asked.tensors[2].tensor.dtype = Dtype::u64;
  asked.values["best"] = std::int64_t{1};
  expect_says(refusal(asked), {"'mean': shape", "'seen': tensor.dtype", "'best': must be"});
}

TEST_F(UserStateOfATrainer, BeyondTheLimitsOfTheFormatIsRefusedBeforeThereIsACheckpoint) {
  std::array<std::string, 2> messages;
  run_ranks(2, [&](Communicator& communicator) {
    Job<float> job(communicator, small, {});
    UserState own;
    own.values["log"] = std::string((std::size_t{16} << 20) + 1, 'x');
    messages[static_cast<std::size_t>(communicator.rank())] =
        error_of<CheckpointError>([&] { save(*job.optimizer, root_, own); });
    job.train(0, 1);
  });
  expect_says(messages[0], {"rank 0", "16777217 bytes in user_values \"log\"; at most 16777216"});
  EXPECT_EQ(messages[0], messages[1]);
  EXPECT_TRUE(std::filesystem::is_empty(root_));
}

TEST_F(UserStateOfATrainer, WhoseValuesAreTooLargeTogetherIsRefusedByName) {
  Alone alone;
  const std::size_t most = std::size_t{16} << 20;
  // Of 2^21 units of 16 bytes: 8 of the object, 12 and its bytes of each text, 9 of the integer, 28
  // of the number that is not finite.
  const std::size_t rest = ((std::size_t{1} << 21) - 8 - 12 - most / 16 - 12 - 9 - 28) * 16;
  UserState own{.values = {{"a", std::string(most, 'a')},
                           {"b", std::int64_t{1}},
                           {"c", std::numeric_limits<double>::quiet_NaN()},
                           {"d", std::string(rest + 16, 'd')}}};
  for (const bool per_rank : {false, true}) {
    if (per_rank) std::swap(own.values, own.rank_values);
    expect_says(error_of<std::invalid_argument>([&] { save(*alone.job.optimizer, root_, own); }),
                {"'d'", "32 MiB together"});
    EXPECT_FALSE(std::filesystem::exists(root_));
  }
  std::swap(own.values, own.rank_values);
  std::get<std::string>(own.values["d"]).pop_back();
  save(*alone.job.optimizer, root_, own);
}

TEST_F(UserStateOfATrainer, AreSharedOutByTheirBytes) {
  std::vector<float> numbers(8);
  std::vector<UserTensor> tensors;
  for (const std::int64_t size : {1, 8, 2, 5, 0}) tensors.push_back({"", {size}, numbers.data()});
  EXPECT_EQ(assign_writers(tensors, 1), (std::vector<int>{0, 0, 0, 0, 0}));
  EXPECT_EQ(assign_writers(tensors, 2), (std::vector<int>{1, 0, 1, 1, 0}));
}

}  // namespace
}  // namespace shampoo::test
