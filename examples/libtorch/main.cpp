// SPDX-License-Identifier: Apache-2.0
// A data-parallel LibTorch trainer: shampoorun or torchrun starts any number of these.
//   trainer [CHECKPOINTS [STEPS]]
#include <shampoo/checkpoint.h>
#include <shampoo/torch.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

namespace {

constexpr int batch = 64;

struct Network : torch::nn::Module {
  Network()
      : convolution(register_module(
            "convolution", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 8, 3).padding(1)))),
        norm(register_module("norm", torch::nn::BatchNorm2d(8))),
        hidden(register_module("hidden", torch::nn::Linear(8 * 8 * 8, 64))),
        head(register_module("head", torch::nn::Linear(64, 4))) {}
  torch::Tensor forward(const torch::Tensor& x) {
    return head(torch::relu(hidden(torch::relu(norm(convolution(x))).flatten(1))));
  }
  torch::nn::Conv2d convolution;
  torch::nn::BatchNorm2d norm;
  torch::nn::Linear hidden, head;
};

/// Images of a bright quarter; which one is the class.
std::pair<torch::Tensor, torch::Tensor> images(std::int64_t step, int rank) {
  torch::manual_seed(1000 * step + rank);
  const torch::Tensor classes = torch::randint(4, {batch});
  torch::Tensor x = torch::randn({batch, 1, 8, 8});
  for (std::int64_t i = 0; i < batch; ++i) {
    const auto c = classes[i].item<std::int64_t>();
    x[i][0].narrow(0, c / 2 * 4, 4).narrow(1, c % 2 * 4, 4) += 0.5;
  }
  return {x, classes};
}

void train(const char* checkpoints, int steps) {
  const auto backend = shampoo::cpu_backend();
  const auto ranks = shampoo::join(*backend);
  torch::manual_seed(1);
  Network network;
  auto groups = shampoo::libtorch::groups_by(
      network,
      {{.rates = {.learning_rate = 3e-3}},
       {.rates = {.learning_rate = 1e-3}, .recipe = shampoo::recipes::adamw()}},
      [](const std::string&, const torch::Tensor& tensor) { return tensor.dim() > 1 ? 0 : 1; });
  shampoo::libtorch::TorchOptimizer optimizer(*backend, *ranks, std::move(groups));
  optimizer.broadcast();

  shampoo::libtorch::TorchState model;
  model.add_module(network, "model/", shampoo::Sharding::per_rank);
  const auto resumed = shampoo::resume(optimizer.native(), checkpoints, model.lend());
  if (resumed) model.take_back();
  for (std::int64_t step = resumed ? resumed->step : 0; step < steps; ++step) {
    const auto [x, classes] = images(step, ranks->rank());
    optimizer.zero_grad();
    torch::Tensor loss = torch::nn::functional::cross_entropy(network.forward(x), classes);
    loss.backward();
    optimizer.average();
    optimizer.step();
    if ((step + 1) % 20 != 0) continue;
    if (ranks->rank() == 0)
      std::printf("step %d  loss %.6f\n", static_cast<int>(step + 1), loss.item<double>());
    shampoo::save(optimizer.native(), checkpoints, model.lend());
  }
}

}  // namespace

int main(int argc, char** argv) try {
  train(argc > 1 ? argv[1] : "checkpoints", argc > 2 ? std::atoi(argv[2]) : 60);
} catch (const std::exception& error) {
  std::fprintf(stderr, "trainer: %s\n", error.what());
  return 1;
}
