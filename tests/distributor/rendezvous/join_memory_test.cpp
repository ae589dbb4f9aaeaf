// SPDX-License-Identifier: Apache-2.0
// What join() makes of a backend's memory; a GPU is emulated.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "distributor/rendezvous/join.h"
#include "distributor/transports/nccl/nccl.h"
#include "kernels/backend.h"
#include "kernels/cuda/device_backend.h"
#include "support/thrown.h"
#include "tests/support/device/emulated_device.h"

namespace shampoo {
namespace {

std::unique_ptr<Backend> backend_in_cuda_memory() {
  return std::make_unique<kernels::cuda::DeviceBackend>(std::make_unique<test::EmulatedDevice>());
}

std::string refusal(Backend& backend, const JoinOptions& options) {
  return test::error_of<std::invalid_argument>([&] { join(backend, options); });
}

/// There is no server, and none must be needed.
JoinOptions first_of_two(Transport transport) {
  return {.transport = transport, .rank = 0, .size = 2, .host = "localhost", .port = 1};
}

TEST(JoinMemory, OneRankTakesCudaMemoryAndItsMeanIsItself) {
  const auto backend = backend_in_cuda_memory();
  const auto ranks = join(*backend, {.launcher = Launcher::one_rank});
  EXPECT_EQ(ranks->memory(), MemoryKind::cuda);
  char unreadable = 1;
  ranks->average({{&unreadable, 1, Type::float64}});
  EXPECT_EQ(unreadable, 1);
  EXPECT_EQ(ranks->split(0, 0)->memory(), MemoryKind::cuda);
}

TEST(JoinMemory, MpiAndGlooRefuseCudaMemory) {
  const auto backend = backend_in_cuda_memory();
  for (const Transport transport : {Transport::mpi, Transport::gloo}) {
    const std::string text = refusal(*backend, first_of_two(transport));
    EXPECT_NE(text.find("takes host memory only: use Transport::nccl"), std::string::npos) << text;
  }
}

TEST(JoinMemory, NcclRefusesHostMemory) {
  const auto backend = cpu_backend({.threads = 1});
  const std::string text = refusal(*backend, first_of_two(Transport::nccl));
  EXPECT_NE(text.find("NCCL takes CUDA memory only"), std::string::npos) << text;
}

TEST(JoinMemory, CudaMemoryChoosesNccl) {
  if (has_nccl()) GTEST_SKIP() << "this build has NCCL, which would begin to connect";
  const auto backend = backend_in_cuda_memory();
  const std::string text = refusal(*backend, first_of_two(Transport::automatic));
  EXPECT_TRUE(text.starts_with("NCCL: not included in this build")) << text;
}

}  // namespace
}  // namespace shampoo
