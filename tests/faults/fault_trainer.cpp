// SPDX-License-Identifier: Apache-2.0
// Joins its job and trains a toy model; can be told to fail.
//   fault_trainer progress=FOLDER [name=value ...], see default_orders
// With checkpoints it goes on from the latest and prints "goes on after step N".
// Prints "checksum=HEX" of all values and ends with 0; with 3 after a CommunicationError, which it
// prints, together with what the next step says; with 4 after another exception.
#include <sys/prctl.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <thread>

#include "distributor/rendezvous/detection.h"
#include "examples/checksum.h"
#include "tests/faults/progress.h"
#include "tests/faults/trainer_checkpoints.h"
#include "tests/shampoo/toy_model.h"
#include "tests/support/counting_backend.h"
#include "tests/support/cpu_kernels.h"

namespace shampoo::test {
namespace {

using Orders = std::map<std::string, std::string>;

const Orders default_orders = {
    {"progress", ""},        // folder of the pages; must be there
    {"model", "awkward"},    // or heavy: almost all time is spent in step()
    {"steps", "12"},         //
    {"pause", "0"},          // ms for the gradients of each step
    {"deadline", "60"},      // s, of a collective
    {"connect", "60"},       // s, to join
    {"checkpoints", ""},     // folder of checkpoints; none if empty
    {"every", "3"},          // steps from one of them to the next
    {"threaded", "no"},      // yes: saves while it trains
    {"leash", "no"},         // yes: dies with the process that started it
    {"fault", "none"},       // kill, stop, throw, abort
    {"fault_rank", "0"},     //
    {"fault_step", "6"},     // no matter for joining and constructing; a step with decompositions
    {"fault_phase", "none"}  // see phase_names
};

Orders read_orders(int count, char** words) {
  Orders orders = default_orders;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || !orders.contains(word.substr(0, equals)))
      throw std::invalid_argument("no such order: " + word);
    orders[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return orders;
}

int number(const Orders& orders, const std::string& name) { return std::stoi(orders.at(name)); }

/// Publishes the progress of this rank, and fails at the phase and step given by the orders.
class Watch {
 public:
  Watch(const Orders& orders, int rank)
      : orders_(orders),
        page_(page_path(orders.at("progress"), rank, restarts())),
        rank_is_meant_(orders.at("fault") != "none" && rank == number(orders, "fault_rank")) {}

  void enter(Phase phase, int step = 0) {
    page_.enter(phase, step);
    step_ = step;
    const bool step_is_meant = phase < Phase::gradients || step == number(orders_, "fault_step");
    if (rank_is_meant_ && step_is_meant && name_of(phase) == orders_.at("fault_phase")) strike();
  }
  /// A phase of the same step.
  void go_on(Phase phase) { enter(phase, step_); }
  void end(std::uint64_t checksum) { page_.end(checksum); }

  std::function<void()> abort = [] {};

 private:
  static int restarts() {
    const char* const count = std::getenv("TORCHELASTIC_RESTART_COUNT");
    return count ? std::atoi(count) : 0;
  }

  void strike() {
    rank_is_meant_ = false;
    const std::string& fault = orders_.at("fault");
    if (fault == "kill") std::raise(SIGKILL);
    if (fault == "stop") std::raise(SIGSTOP);
    if (fault == "throw") throw std::runtime_error("told to throw");
    if (fault == "abort") abort();
  }

  const Orders& orders_;
  ProgressPage page_;
  bool rank_is_meant_;
  int step_ = 0;
};

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
  Watch watch(orders, rendezvous::detect(rendezvous::process_variables(), options).rank);
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
