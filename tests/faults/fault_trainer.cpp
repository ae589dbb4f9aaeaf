// SPDX-License-Identifier: Apache-2.0
// Joins its job and trains a toy model; can be told to fail.
//   fault_trainer progress=FOLDER [name=value ...], see default_orders in watch.cpp
// With checkpoints it goes on from the latest and prints "goes on after step N".
// Prints "checksum=HEX" of all values and ends with 0; with 3 after a CommunicationError, which it
// prints, together with what the next step says; with 4 after another exception.
#include <sys/prctl.h>

#include <csignal>
#include <cstdio>
#include <functional>
#include <iostream>
#include <optional>
#include <thread>

#include "distributor/rendezvous/detection.h"
#include "examples/checksum.h"
#include "tests/faults/trainer_checkpoints.h"
#include "tests/faults/watch.h"
#include "tests/shampoo/toy_model.h"
#include "tests/support/counting_backend.h"
#include "tests/support/cpu_kernels.h"

namespace shampoo::test {
namespace {

/// Tells the phases of a step.
class WatchedBackend final : public CountingBackend {
 public:
  WatchedBackend(kernels::Backend& backend, Watch& watch)
      : CountingBackend(backend), watch_(watch) {}

  void eigh(std::span<const kernels::SquareMatrixBatch> a, kernels::Eigensolver solver,
            std::int32_t* failed) override {
    watch_.go_on(Phase::decomposing);
    CountingBackend::eigh(a, solver, failed);
  }
  void download(void* to_host, const void* from, std::size_t bytes) override {
    watch_.pass_download();
    CountingBackend::download(to_host, from, bytes);
  }
  void update(const kernels::PassContext& context, const kernels::UpdatePass& pass) override {
    CountingBackend::update(context, pass);
    watch_.go_on(Phase::exchanging);
  }
  void filter_and_update(const kernels::PassContext& context,
                         const kernels::GradientPass& gradients,
                         const kernels::UpdatePass& pass) override {
    CountingBackend::filter_and_update(context, gradients, pass);
    watch_.go_on(Phase::exchanging);
  }
  void precondition_and_update(const kernels::PassContext& context,
                               const kernels::GradientPass& gradients,
                               std::span<const kernels::Stack> stacks,
                               std::span<const kernels::Selection> present, double* direction_norms,
                               const kernels::UpdatePass& pass) override {
    CountingBackend::precondition_and_update(context, gradients, stacks, present, direction_norms,
                                             pass);
    watch_.go_on(Phase::exchanging);
  }
  void apply(const kernels::TileTable& elements, const kernels::Mode* modes, const void* segments,
             const std::int32_t* proceed) override {
    watch_.go_on(Phase::applying);
    CountingBackend::apply(elements, modes, segments, proceed);
  }

 private:
  Watch& watch_;
};

std::vector<std::vector<std::int64_t>> shapes_of(const std::string& model) {
  if (model == "awkward") return awkward_shapes();
  return {{160, 159}, {160, 160}, {53}, {320, 61}, {16, 3, 3, 8}};
}

Recipe recipe_of(const std::string& model) {
  Recipe recipe = quick_recipe();
  std::get<RootInverse>(recipe.preconditioner).solver = Eigen{};
  if (model != "awkward") {
    recipe.blocking.size = 160;
    recipe.refresh = {.every = 1, .first = 1};
  }
  return recipe;
}

/// Gradients that depend on step and rank alone, then their mean.
void make_gradients(ToyModel<float>& model, int step, Communicator& ranks, Watch& watch,
                    int pause) {
  watch.enter(Phase::gradients, step);
  std::mt19937_64 random(static_cast<std::uint64_t>(step * 1000 + ranks.rank()));
  std::normal_distribution<float> normal;
  std::vector<TensorSpan> gradients;
  for (auto& tensor : model.tensors) {
    for (float& x : tensor.gradient) x = normal(random);
    gradients.push_back(
        {tensor.gradient.data(), static_cast<std::int64_t>(tensor.gradient.size())});
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(pause));
  watch.enter(Phase::averaging, step);
  ranks.average(gradients);
}

std::uint64_t checksum_of(const ToyModel<float>& model) {
  std::uint64_t sum = examples::checksum({});
  for (const auto& tensor : model.tensors)
    sum = examples::checksum(std::as_bytes(std::span(tensor.value)), sum);
  return sum;
}

/// None where there is no folder for them.
std::unique_ptr<TrainerCheckpoints> checkpoints_of(const Orders& orders, ToyModel<float>& model,
                                                   Optimizer& optimizer) {
  if (orders.at("checkpoints").empty()) return nullptr;
  return std::make_unique<TrainerCheckpoints>(
      optimizer, model,
      TrainerCheckpoints::Options{.root = orders.at("checkpoints"),
                                  .every = number(orders, "every"),
                                  .threaded = orders.at("threaded") == "yes"});
}

int resume(TrainerCheckpoints& checkpoints, int rank, Watch& watch) {
  watch.enter(Phase::loading);
  const int step = checkpoints.resume();
  if (rank == 0 && step > 0)
    std::cout << "goes on after step " + std::to_string(step) + "\n" << std::flush;
  return step;
}

void train(const Orders& orders, Communicator& ranks, Watch& watch, ToyModel<float>& model,
           Optimizer& optimizer) {
  const auto checkpoints = checkpoints_of(orders, model, optimizer);
  const int taken = checkpoints ? resume(*checkpoints, ranks.rank(), watch) : 0;
  for (int step = taken + 1; step <= number(orders, "steps"); ++step) {
    make_gradients(model, step, ranks, watch, number(orders, "pause"));
    watch.enter(Phase::preparing, step);
    optimizer.prepare_step();
    optimizer.enqueue_step();
    watch.enter(Phase::between, step);
    if (!checkpoints) continue;
    watch.enter(Phase::saving, step);
    checkpoints->after(step);
    watch.enter(Phase::between, step);
  }
  if (checkpoints) checkpoints->finish();
  const std::uint64_t sum = checksum_of(model);
  std::printf("checksum=%016llx\n", static_cast<unsigned long long>(sum));
  std::fflush(stdout);
  watch.end(sum);
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing is wrong";
}

int work(const Orders& orders) {
  const JoinOptions options{.connect_deadline = std::chrono::seconds(number(orders, "connect")),
                            .deadline = std::chrono::seconds(number(orders, "deadline"))};
  Watch watch(orders, rendezvous::detect(read_environment(), options).rank);
  watch.enter(Phase::joining);
  const auto cpu = cpu_kernels({.threads = 1});
  const auto ranks = join(*cpu, options);
  watch.abort = [&] { ranks->abort("told to abort"); };
  WatchedBackend backend(*cpu, watch);
  ToyModel<float> model(shapes_of(orders.at("model")));
  watch.enter(Phase::constructing);
  Optimizer optimizer(backend, *ranks, {model.group(recipe_of(orders.at("model")))});
  try {
    train(orders, *ranks, watch, model, optimizer);
  } catch (const CommunicationError& error) {
    std::cerr << std::string("error: ") + error.what() + "\n";
    std::cerr << "again: " + message_of([&] { optimizer.step(); }) + "\n";
    report_error(error.what());
    return 3;
  }
  return 0;
}

}  // namespace
}  // namespace shampoo::test

int main(int count, char** words) {
  try {
    const auto orders = shampoo::test::read_orders(count, words);
    if (orders.at("leash") == "yes") prctl(PR_SET_PDEATHSIG, SIGKILL);
    return shampoo::test::work(orders);
  } catch (const std::exception& error) {
    std::cerr << std::string("error: ") + error.what() + "\n";
    shampoo::report_error(error.what());
    return dynamic_cast<const shampoo::CommunicationError*>(&error) ? 3 : 4;
  }
}
