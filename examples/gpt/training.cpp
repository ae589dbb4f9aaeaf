// SPDX-License-Identifier: Apache-2.0
#include "examples/gpt/training.h"

#include <algorithm>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>

#include "examples/checksum.h"
#include "examples/fashion/network/share.h"
#include "examples/fashion/stopwatch.h"
#include "examples/gpt/identity.h"
#include "examples/gpt/replica.h"
#include "examples/gpt/slab.h"

namespace gpt {

namespace {

std::vector<shampoo::Parameter> parameters(const Layout& layout, const Slab& values,
                                           const Slab& gradients) {
  std::vector<shampoo::Parameter> all;
  layout.for_each_tensor([&](const std::string& name, const auto& shape, std::int64_t first) {
    all.push_back(
        {.name = name, .shape = shape, .value = values.at(first), .gradient = gradients.at(first)});
  });
  return all;
}

Slab initial_values(shampoo::Backend& backend, const Layout& layout, shampoo::Type type,
                    std::uint64_t seed) {
  Slab values(backend, layout.elements(), type);
  initialise(layout, seed, values.host);
  values.write();
  values.read();
  return values;
}

class Run {
 public:
  Run(shampoo::Backend& backend, shampoo::Communicator& ranks, const Text& text, const Task& task,
      const Attempt& attempt)
      : backend_(backend),
        ranks_(ranks),
        text_(text),
        task_(task),
        attempt_(attempt),
        layout_(task.size),
        values_(initial_values(backend, layout_, type(), attempt.seed)),
        gradients_(backend, layout_.elements(), type()),
        replica_(layout_, task.threads, (task.batch + parts() - 1) / parts()),
        held_out_(text.validation(task.validation, length())),
        optimizer_(backend, ranks,
                   parameter_groups(*attempt.method, attempt.settings,
                                    parameters(layout_, values_, gradients_)),
                   {.gradients = {.clipping = clipping()}}) {}

  Outcome train(const std::function<void(const Reading&)>& report) {
    Outcome outcome;
    outcome.attempt = attempt_;
    const std::int64_t steps = attempt_.settings.steps;
    const std::int64_t last = task_.until > 0 ? std::min(task_.until, steps) : steps;
    const auto read = [&] {
      outcome.readings.push_back({step_, validation_loss(), seconds_, optimizer_seconds_});
      if (report) report(outcome.readings.back());
    };
    resume();
    read();
    while (step_ < last) {
      take_step();
      if (step_ % task_.evaluate_every == 0 || step_ == last) read();
      if (!task_.checkpoints.empty() && (step_ % task_.checkpoint_every == 0 || step_ == last))
        save();
    }
    outcome.bytes_per_parameter =
        static_cast<double>(optimizer_.state_bytes() + optimizer_.workspace_bytes()) /
        static_cast<double>(layout_.elements());
    outcome.plan = optimizer_.describe();
    outcome.sample = sample();
    outcome.checksum = examples::checksum(std::as_bytes(std::span<const float>(values_.host)));
    return outcome;
  }

 private:
  shampoo::Type type() const {
    return task_.bfloat16 ? shampoo::Type::bfloat16 : shampoo::Type::float32;
  }
  shampoo::Clipping clipping() const {
    if (task_.clip > 0) return shampoo::ClipGlobalNorm{task_.clip};
    return shampoo::NoClipping{};
  }
  int parts() const { return task_.replicate ? 1 : ranks_.size(); }
  std::int64_t length() const { return layout_.size().context + 1; }

  /// This rank's share of windows.
  Bytes own(const Bytes& windows) const {
    const fashion::Share share = fashion::share(static_cast<int>(std::ssize(windows) / length()),
                                                task_.replicate ? 0 : ranks_.rank(), parts());
    const auto begin = windows.begin() + share.first * length();
    return {begin, begin + share.count * length()};
  }

  void take_step() {
    const fashion::Stopwatch watch;
    const Bytes windows = own(text_.batch(attempt_.seed, step_, task_.batch, length()));
    // The mean over all positions; average() divides by the number of ranks.
    const auto positions = static_cast<float>(task_.batch * layout_.size().context);
    const float scale = static_cast<float>(parts()) / positions;
    replica_.differentiate(values_.host, windows, scale, gradients_.host);
    gradients_.write();
    if (parts() > 1) ranks_.average({gradients_.all()}, {backend_.stream()});
    const fashion::Stopwatch optimizer_watch;
    optimizer_.step();
    backend_.synchronize();
    optimizer_seconds_ += optimizer_watch.seconds();
    values_.read();
    ++step_;
    seconds_ += watch.seconds();
  }

  /// All windows on every rank: the same number on all of them without a collective.
  double validation_loss() {
    return replica_.cross_entropy(values_.host, held_out_) /
           static_cast<double>(task_.validation * layout_.size().context);
  }

  /// What the library does not keep: the values, and what they are of.
  shampoo::UserState user_state() {
    return {.tensors = shampoo::value_tensors(optimizer_),
            .values = identity(text_, task_, attempt_)};
  }
  std::filesystem::path folder() const { return task_.checkpoints / attempt_.method->key; }

  void save() {
    shampoo::save(optimizer_, folder(), user_state(), {.step = step_, .keep_last = 2});
  }

  void resume() {
    if (task_.checkpoints.empty()) return;
    shampoo::UserState found = user_state();
    const auto loaded =
        examples::resume(optimizer_, folder(), found, identity(text_, task_, attempt_));
    if (!loaded) return;
    step_ = loaded->step;
    values_.read();
  }

  std::string sample() {
    if (task_.sample == 0) return "";
    const Bytes begin = text_.validation(1, layout_.size().context);
    const Bytes bytes = replica_.continuation(values_.host, begin, task_.sample, attempt_.seed);
    return {bytes.begin(), bytes.end()};
  }

  shampoo::Backend& backend_;
  shampoo::Communicator& ranks_;
  const Text& text_;
  const Task& task_;
  const Attempt& attempt_;
  Layout layout_;
  Slab values_, gradients_;
  Replica replica_;
  Bytes held_out_;
  shampoo::Optimizer optimizer_;
  std::int64_t step_ = 0;
  double seconds_ = 0, optimizer_seconds_ = 0;
};

}  // namespace

Outcome train(shampoo::Backend& backend, shampoo::Communicator& ranks, const Text& text,
              const Task& task, const Attempt& attempt,
              const std::function<void(const Reading&)>& report) {
  if (!task.replicate && task.batch < ranks.size())
    throw std::invalid_argument("--batch: there must be at least one sequence for each rank");
  return Run(backend, ranks, text, task, attempt).train(report);
}

}  // namespace gpt
