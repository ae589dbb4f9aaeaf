// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "guest.h"

namespace guest {
namespace {

int of_environment(const char* name) {
  const char* const text = std::getenv(name);
  if (!text) throw std::runtime_error(std::string(name) + " is not set");
  return std::atoi(text);
}

}  // namespace

void check_products(const char* when) {
  at::set_num_threads(2);
  const at::Tensor a = at::arange(600 * 600).reshape({600, 600}).remainder(7).to(at::kFloat);
  const at::Tensor exact = at::mm(a.to(at::kDouble), a.to(at::kDouble)).to(at::kFloat);
  at::Tensor product;
  CpuTime time;
  time.start();
  for (int i = 0; i < 30; ++i) product = at::mm(a, a);
  time.stop();
  std::printf("torch %s: %s, %d threads at work\n", when, product.equal(exact) ? "exact" : "wrong",
              time.is_of_one_thread() ? 1 : at::get_num_threads());
}

void check_process_group() {
  if (!std::getenv("RANK")) return;  // under mpirun
  const int rank = of_environment("RANK"), size = of_environment("WORLD_SIZE");
  c10d::TCPStoreOptions where;
  where.port = static_cast<std::uint16_t>(of_environment("MASTER_PORT"));
  const auto store = c10::make_intrusive<c10d::PrefixStore>(
      "torch", c10::make_intrusive<c10d::TCPStore>(std::getenv("MASTER_ADDR"), where));
  auto options = c10d::ProcessGroupGloo::Options::create(std::chrono::seconds(60));
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  c10d::ProcessGroupGloo ranks(store, rank, size, options);
  std::vector<at::Tensor> sum{at::full({1000}, rank + 1.0)};
  ranks.allreduce(sum)->wait();
  const bool right = sum[0].eq(size * (size + 1) / 2.0).all().item<bool>();
  std::printf("torch group: %s\n", right ? "right sums" : "wrong sums");
}

}  // namespace guest
