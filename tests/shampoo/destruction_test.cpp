// SPDX-License-Identifier: Apache-2.0
// Nothing owns in a circle, and nothing reads what was destroyed before it: a trainer's objects may
// go in any order. Sanitizers see what is read too late or lost in host memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>

#include "shampoo/checkpoint.h"
#include "tests/shampoo/toy_model.h"
#include "tests/support/counting_backend.h"
#include "tests/support/device/backends.h"

namespace shampoo::test {
namespace {

/// Knows the bytes that were allocated and not released.
class AllocatingBackend final : public CountingBackend {
 public:
  using CountingBackend::CountingBackend;

  void* allocate(std::size_t bytes) override {
    return known(CountingBackend::allocate(bytes), bytes);
  }
  void release(void* memory) noexcept override {
    sizes_.erase(memory);
    CountingBackend::release(memory);
  }
  void* allocate_host(std::size_t bytes) override {
    return known(CountingBackend::allocate_host(bytes), bytes);
  }
  void release_host(void* memory) noexcept override {
    sizes_.erase(memory);
    CountingBackend::release_host(memory);
  }

  std::size_t bytes() const {
    return std::accumulate(sizes_.begin(), sizes_.end(), std::size_t{0},
                           [](std::size_t sum, const auto& size) { return sum + size.second; });
  }

 private:
  void* known(void* memory, std::size_t bytes) {
    if (memory != nullptr) sizes_[memory] = bytes;
    return memory;
  }

  std::map<void*, std::size_t> sizes_;
};

/// What a trainer has beside backend and communicator, which must outlive it.
struct Trainer {
  Trainer(kernels::Backend& backend, Communicator& ranks)
      : model(std::in_place, std::vector<std::vector<std::int64_t>>{{3, 2}}, 1U, &backend) {
    Recipe averaged = quick_recipe();
    averaged.averaging = ScheduleFree{};
    groups.emplace({model->group(averaged)});
    optimizer.emplace(backend, ranks, *groups);
    result.emplace(optimizer->step());
    norm = result->gradient_norm();
    copy.emplace(snapshot(*optimizer));
    backend.synchronize();
  }

  void destroy(int part) {
    if (part == 0) model.reset();
    if (part == 1) groups.reset();
    if (part == 2) optimizer.reset();
    if (part == 3) result.reset();
    if (part == 4) copy.reset();
  }
  static constexpr int parts = 5;

  /// What is left can still be used.
  void expect_use(kernels::Backend& backend) {
    if (result) {
      EXPECT_EQ(result->gradient_norm(), norm);
    }
    if (copy) {
      EXPECT_EQ(copy->step(), 1);
    }
    if (!optimizer || !model || result) return;  // a result of an earlier step
    EXPECT_TRUE(optimizer->step().applied());
    backend.synchronize();
  }

  std::optional<ToyModel<float>> model;
  std::optional<std::vector<ParameterGroup>> groups;
  std::optional<Optimizer> optimizer;
  std::optional<StepResult> result;
  std::optional<Snapshot> copy;
  double norm = 0;
};

class Destruction : public testing::TestWithParam<Place> {
 protected:
  void SetUp() override { require(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Everywhere, Destruction, testing::ValuesIn(all_places),
                         [](const auto& tested) { return name_of(tested.param); });

TEST_P(Destruction, MayBeInAnyOrderAndLeavesNoMemory) {
  const auto place = backend_at(GetParam());
  AllocatingBackend backend(*place);
  const auto ranks = single_rank_communicator(backend.memory_kind());
  std::array<int, Trainer::parts> order{};
  std::iota(order.begin(), order.end(), 0);
  int orders = 0;
  do {
    Trainer trainer(backend, *ranks);
    EXPECT_GT(backend.bytes(), 0U);
    for (const int part : order) {
      trainer.destroy(part);
      trainer.expect_use(backend);
    }
    EXPECT_EQ(backend.bytes(), 0U) << testing::PrintToString(order);
    ++orders;
  } while (std::ranges::next_permutation(order).found);
  EXPECT_EQ(orders, 120);
}

}  // namespace
}  // namespace shampoo::test
