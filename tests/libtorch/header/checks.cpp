// SPDX-License-Identifier: Apache-2.0
#include <shampoo/c10d.h>
#include <shampoo/checkpoint.h>
#include <shampoo/torch.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

// Runs on any number of ranks; ends with 1 and a line where something is not as it should be.

namespace {

using namespace shampoo;
using namespace shampoo::libtorch;

struct Job {
  Backend& backend;
  Communicator& ranks;

  TorchOptimizer optimizer(std::vector<std::pair<std::string, at::Tensor>> tensors) {
    Recipe recipe;
    recipe.refresh = {.every = 2, .first = 1};
    return {backend, ranks,
            std::vector<TensorGroup>{{std::move(tensors), {.learning_rate = 0.1}, recipe}}};
  }
};

void check(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

void expect_error(const std::string& words, const std::function<void()>& call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return check(std::string(error.what()).find(words) != std::string::npos,
                 "'" + words + "' is not in: " + error.what());
  }
  throw std::runtime_error("no error with '" + words + "'");
}

at::Tensor leaf(at::Tensor tensor) { return tensor.detach().requires_grad_(true); }

/// Values after three steps with gradients that are functions of the values.
at::Tensor trained(Job& job, at::Tensor weight, at::MemoryFormat of_gradients) {
  TorchOptimizer optimizer = job.optimizer({{"weight", weight}});
  for (int step = 0; step < 3; ++step) {
    weight.mutable_grad() = (weight.detach() * (step + 1) - 1).contiguous(of_gradients);
    optimizer.average();
    optimizer.step();
  }
  return weight.detach().contiguous();
}

void layouts_do_not_matter(Job& job) {
  torch::manual_seed(1);
  const at::Tensor start = torch::randn({6, 4, 3, 5});
  const at::Tensor expected = trained(job, leaf(start.clone()), at::MemoryFormat::Contiguous);
  for (const auto of_value : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast})
    for (const auto of_gradient : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast})
      check(trained(job, leaf(start.clone(of_value)), of_gradient).equal(expected),
            "another memory format gives other values");
  check(!expected.equal(start), "nothing was trained");
}

void presence_is_agreed(Job& job) {
  const at::Tensor everywhere = leaf(torch::ones({3, 3})), here = leaf(torch::ones({3, 3})),
                   nowhere = leaf(torch::ones({3, 3}));
  TorchOptimizer optimizer =
      job.optimizer({{"everywhere", everywhere}, {"here", here}, {"nowhere", nowhere}});
  everywhere.mutable_grad() = torch::ones({3, 3});
  if (job.ranks.rank() == 0) here.mutable_grad() = torch::ones({3, 3});
  optimizer.average();
  check(here.grad().defined() && here.grad().equal(torch::full({3, 3}, 1.0 / job.ranks.size())),
        "a gradient of one rank is not the mean with zeros");
  optimizer.step();
  check(nowhere.equal(torch::ones({3, 3})) && !nowhere.grad().defined(),
        "a tensor without gradient has changed");
  check(!everywhere.equal(torch::ones({3, 3})), "a tensor with a gradient has not changed");

  optimizer.zero_grad(false);
  check(here.grad().equal(torch::zeros({3, 3})) && !nowhere.grad().defined(), "zero_grad(false)");
  optimizer.zero_grad();
  check(!here.grad().defined(), "zero_grad()");
}

void gradients_have_the_loss_scale_after_zero_grad(Job& job) {
  const at::Tensor weight = leaf(torch::ones({4, 4}));
  TorchOptimizer optimizer(job.backend, job.ranks,
                           std::vector<TensorGroup>{{{{"weight", weight}}, {}, recipes::adamw()}},
                           {.gradients = {.loss_scaling = FixedLossScale{16}}});
  for (const bool set_to_none : {true, false}) {
    weight.mutable_grad() = torch::full({4, 4}, 16.0f);
    optimizer.unscale();
    check(weight.grad().equal(torch::ones({4, 4})), "unscale()");
    weight.mutable_grad().reset();  // of memory that is gone then
    optimizer.zero_grad(set_to_none);
    weight.mutable_grad() = torch::full({4, 4}, 16.0f);
    check(optimizer.step().gradient_norm() == 4, "the loss scale after zero_grad()");
  }
}

void values_are_broadcast(Job& job) {
  const at::Tensor weight = leaf(torch::full({4, 4}, 1.0 + job.ranks.rank()));
  TorchOptimizer optimizer = job.optimizer({{"weight", weight}});
  optimizer.broadcast();
  check(weight.equal(torch::ones({4, 4})), "broadcast()");
  const at::Tensor loss = optimizer.step([&] {
    const at::Tensor now = weight.square().sum();
    now.backward();
    return now;
  });
  check(loss.item<float>() == 16 && !weight.equal(torch::ones({4, 4})), "step(closure)");
}

void groups_have_labels_and_schedules(Job& job) {
  const at::Tensor weight = leaf(torch::ones({4, 4}));
  TorchOptimizer optimizer(job.backend, job.ranks,
                           {{.tensors = {{"weight", weight}},
                             .schedules = {{"learning_rate", schedules::Constant{.factor = 0.5}}},
                             .label = "matrices"}});
  weight.mutable_grad() = torch::ones({4, 4});
  optimizer.step();
  check(optimizer.native().group(0).label() == "matrices", "label");
  check(optimizer.rates(0).learning_rate == 0.5 * Rates{}.learning_rate, "schedule");
}

void groups_are_added(Job& job) {
  const at::Tensor first = leaf(torch::ones({4, 4})), second = leaf(torch::ones({3, 2})),
                   third = leaf(torch::ones({2}));
  TorchOptimizer optimizer = job.optimizer({{"first", first}});
  optimizer.add_group({{{"second", second}}, {.learning_rate = 0.1}});
  expect_error("'third': must be dense", [&] {
    optimizer.add_group({{{"third", leaf(torch::ones({2, 2}).to_sparse())}}});
  });
  (first.square().sum() + second.square().sum()).backward();
  optimizer.average();
  optimizer.step();
  check(second.lt(1).all().item<bool>(), "a tensor of a group that was added");
  check(optimizer.native().steps("second") == 1, "steps of a tensor that was added");
  optimizer.zero_grad();
  check(!second.grad().defined(), "zero_grad() of a group that was added");
  optimizer.native().add_group(
      {.parameters = {{.name = "third", .shape = {2}, .value = third.data_ptr<float>()}}});
  try {
    optimizer.step();
  } catch (const std::logic_error& error) {
    return check(
        std::string(error.what()).find("TorchOptimizer has an add_group()") != std::string::npos,
        error.what());
  }
  throw std::runtime_error("a group that the native optimizer was given is trained by nobody");
}

void mistakes_are_named(Job& job) {
  const auto make = [&](at::Tensor tensor) {
    return [&job, tensor] { job.optimizer({{"bad", tensor}}); };
  };
  expect_error("'bad': must be defined", make({}));
  expect_error("'bad': must be a leaf", make(torch::ones({2, 2})));
  expect_error("'bad': must be a leaf", make(leaf(torch::ones({2, 2})) * 2));
  expect_error("'bad': must be dense", make(leaf(torch::ones({2, 2}).to_sparse())));
  expect_error("'bad': dtype must be", make(leaf(torch::ones({2, 2}, at::kComplexFloat))));

  torch::nn::Linear module(2, 2);
  expect_error("'weight': group 1 is none of the 1", [&] {
    groups_by(*module, {TensorGroup{}}, [](const std::string&, const at::Tensor&) { return 1; });
  });

  const at::Tensor weight = leaf(torch::ones({3, 2}));
  TorchOptimizer optimizer = job.optimizer({{"weight", weight}});
  weight.mutable_grad() = torch::ones({3, 2}).to_sparse();
  expect_error("'weight': its gradient must be dense", [&] { optimizer.step(); });
  weight.mutable_grad() = torch::ones({3, 2});
  weight.mutable_grad() = torch::ones({2, 2});
  expect_error("'weight': its gradient must be of shape [3, 2] on cpu, not [2, 2] on cpu",
               [&] { optimizer.average(); });
  weight.mutable_grad() = torch::ones({3, 2});
  const at::Tensor whole = weight.detach();
  weight.set_data(whole.narrow(0, 0, 2));
  weight.mutable_grad() = torch::ones({2, 2});
  expect_error("'weight': its value has moved, or changed its type or shape",
               [&] { optimizer.step(); });
  check(whole.eq(1).all().item<bool>(), "values beside a smaller shape");
  weight.set_data(torch::ones({3, 2}));
  weight.mutable_grad() = torch::ones({3, 2});
  expect_error("'weight': its value has moved", [&] { optimizer.step(); });
}

void gradients_may_be_views(Job& job) {
  const at::Tensor weight = leaf(torch::zeros({2, 2})), bucket = torch::ones({4});
  TorchOptimizer optimizer = job.optimizer({{"weight", weight}});
  weight.mutable_grad() = at::_neg_view(bucket.view({2, 2}));
  optimizer.step();
  check(weight.gt(0).all().item<bool>(), "the sign of a negative view");
  weight.mutable_grad() = bucket.view({2, 2});
  optimizer.zero_grad(false);
  check(bucket.eq(0).all().item<bool>(), "zero_grad(false) of a bucket");
  expect_error("'bad': must be no negative view", [&] {
    job.optimizer({{"bad", leaf(at::_neg_view(torch::ones({2, 2})))}});
  });
}

void old_graphs_are_refused(Job& job) {
  const at::Tensor weight = leaf(torch::ones({2, 2})), idle = leaf(torch::ones({2, 2})),
                   input = leaf(torch::ones({2, 2}));
  TorchOptimizer optimizer = job.optimizer({{"weight", weight}, {"idle", idle}});
  weight.mutable_grad() = torch::ones({2, 2});
  const at::Tensor stepped = (weight * input).sum(), untouched = (idle * input).sum();
  optimizer.step();
  untouched.backward();
  bool refused = false;
  try {
    stepped.backward();
  } catch (const c10::Error&) {
    refused = true;
  }
  check(refused, "a backward pass through values of before the step");
  const auto version = weight._version();
  optimizer.broadcast();
  check(weight._version() > version, "broadcast() and autograd");
}

/// All ranks throw the error of the rank that has one, instead of waiting for it.
void faults_of_one_rank_reach_all(Job& job) {
  if (job.ranks.size() == 1) return;
  expect_error("rank 1: tensor 'late': must be a leaf", [&] {
    job.optimizer({{"late", torch::ones({3, 2}).requires_grad_(job.ranks.rank() != 1)}});
  });
  expect_error("rank 0: tensor 'late': dtype must be", [&] {
    job.optimizer({{"late", leaf(torch::ones(
                                {3, 2}, job.ranks.rank() == 0 ? at::kComplexFloat : at::kFloat))}});
  });
  const at::Tensor weight = leaf(torch::ones({3, 2}));
  TorchOptimizer optimizer = job.optimizer({{"weight", weight}});
  const bool is_wrong = job.ranks.rank() == 1;
  const auto spoil = [&] {
    weight.mutable_grad() = torch::ones({3, 2});
    if (is_wrong) weight.mutable_grad() = torch::ones({3, 2}).to_sparse();
  };
  spoil();
  expect_error("rank 1: tensor 'weight': its gradient", [&] { optimizer.average(); });
  try {
    optimizer.step();
  } catch (const std::exception& error) {
    return check(std::string(error.what()).find("'weight': its gradient") != std::string::npos,
                 error.what());
  }
  throw std::runtime_error("a fault of one rank is no error of the step");
}

void generators_go_on(Job& job, const std::string& folder) {
  torch::manual_seed(10 + job.ranks.rank());
  torch::nn::BatchNorm2d module(3);
  TorchOptimizer optimizer = job.optimizer({{"weight", module->weight}});
  module->weight.mutable_grad() = torch::ones({3});
  optimizer.step();
  module->running_mean.fill_(job.ranks.rank() + 0.5);
  TorchState state;
  state.add_module(*module, "model/", Sharding::per_rank);
  state.add_generator();
  shampoo::save(optimizer.native(), folder, state.lend());
  const at::Tensor next = torch::rand({5}), weight = module->weight.detach().clone();

  torch::manual_seed(0);
  module->running_mean.zero_();
  module->weight.detach().zero_();
  shampoo::load(optimizer.native(), folder, state.lend());
  state.take_back();
  check(torch::rand({5}).equal(next), "the generator does not go on");
  check(module->running_mean.eq(job.ranks.rank() + 0.5).all().item<bool>(), "a rank's buffer");
  check(module->weight.equal(weight), "a parameter of the module");
}

void types_of_files_come_back(Job& job, const std::string& folder) {
  const at::Tensor bytes = torch::arange(1, 25, at::kByte);
  torch::nn::BatchNorm2d module(3);
  std::vector<at::Tensor> buffers;
  for (const at::ScalarType type :
       {at::kByte, at::kChar, at::kShort, at::kUInt16, at::kInt, at::kUInt32, at::kLong,
        at::kUInt64, at::kHalf, at::kBFloat16, at::kFloat, at::kDouble, at::kComplexFloat,
        at::kFloat8_e5m2, at::kFloat8_e4m3fn, at::kFloat8_e5m2fnuz, at::kFloat8_e4m3fnuz,
        at::kFloat8_e8m0fnu})
    buffers.push_back(module->register_buffer(at::toString(type), bytes.clone().view(type)));
  TorchOptimizer optimizer = job.optimizer({{"weight", module->weight}});
  TorchState state;
  state.add_module(*module);
  shampoo::save(optimizer.native(), folder, state.lend());
  for (const at::Tensor& buffer : buffers) buffer.view(at::kByte).zero_();
  shampoo::load(optimizer.native(), folder, state.lend());
  state.take_back();
  for (const at::Tensor& buffer : buffers)
    check(buffer.view(at::kByte).equal(bytes), at::toString(buffer.scalar_type()));
  module->register_buffer("wide", torch::zeros({2}, at::kComplexDouble));
  TorchState wide;
  wide.add_module(*module);
  expect_error("model/wide: dtype ComplexDouble", [&] { wide.lend(); });
}

c10::intrusive_ptr<c10d::Backend> process_group(const Communicator& ranks) {
  c10d::TCPStoreOptions where;
  where.port = static_cast<std::uint16_t>(std::atoi(std::getenv("MASTER_PORT")));
  const auto store = c10::make_intrusive<c10d::PrefixStore>(
      "torch", c10::make_intrusive<c10d::TCPStore>(std::getenv("MASTER_ADDR"), where));
  auto options = c10d::ProcessGroupGloo::Options::create(std::chrono::seconds(60));
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, ranks.rank(), ranks.size(), options);
}

/// Values after steps with gradients that differ between ranks, averaged first.
std::vector<at::Tensor> trained_together(Job& job) {
  torch::manual_seed(2);
  const at::Tensor a = leaf(torch::randn({20, 9})), b = leaf(torch::randn({7}));
  TorchOptimizer optimizer = job.optimizer({{"a", a}, {"b", b}});
  for (int step = 0; step < 4; ++step) {
    a.mutable_grad() = a.detach() * (job.ranks.rank() + 1) - step;
    b.mutable_grad() = b.detach() - job.ranks.rank();
    optimizer.average();
    optimizer.step();
  }
  return {a.detach(), b.detach()};
}

void process_groups_give_the_same_bits(Job& job) {
  const auto group = process_group(job.ranks);
  for (const c10::Device wrong : {c10::Device("cuda:0"), c10::Device("cuda"), c10::Device("meta")})
    expect_error("c10d_communicator: device must be ", [&] { c10d_communicator(group, 0, wrong); });
  const auto ranks = c10d_communicator(group, job.ranks.local_rank());
  Job over_torch{job.backend, *ranks};
  const std::vector<at::Tensor> expected = trained_together(job),
                                found = trained_together(over_torch);
  for (std::size_t i = 0; i < found.size(); ++i)
    check(found[i].equal(expected[i]), "other bits over a process group");

  if (ranks->size() == 1) return;
  float x[2] = {};
  try {
    if (ranks->rank() == 0)
      ranks->all_reduce(x, 2, Type::float32);
    else
      ranks->average({TensorSpan{x, 1}});
  } catch (const CommunicationError& error) {
    return check(std::string(error.what()).find("is in another call") != std::string::npos,
                 error.what());
  }
  throw std::runtime_error("calls that do not match are no error");
}

}  // namespace

int main(int, char** argv) try {
  const auto backend = shampoo::cpu_backend({.threads = 1});
  const auto ranks = shampoo::join(*backend);
  Job job{*backend, *ranks};
  layouts_do_not_matter(job);
  presence_is_agreed(job);
  gradients_have_the_loss_scale_after_zero_grad(job);
  values_are_broadcast(job);
  groups_have_labels_and_schedules(job);
  groups_are_added(job);
  mistakes_are_named(job);
  gradients_may_be_views(job);
  old_graphs_are_refused(job);
  faults_of_one_rank_reach_all(job);
  generators_go_on(job, argv[1]);
  types_of_files_come_back(job, std::string(argv[1]) + "-types");
  process_groups_give_the_same_bits(job);
  std::printf("rank %d of %d: as promised\n", ranks->rank(), ranks->size());
} catch (const std::exception& error) {
  std::printf("wrong: %s\n", error.what());
  return 1;
}
