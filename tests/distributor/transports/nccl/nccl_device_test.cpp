// SPDX-License-Identifier: Apache-2.0
// The real NCCL: one rank where there is a device, and a rank on each where there are more.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <vector>

#include "distributor/communicator.h"
#include "distributor/rendezvous/join.h"
#include "distributor/transports/nccl/nccl_api.h"
#include "distributor/transports/nccl/nccl_interop.h"
#include "kernels/backend.h"
#include "support/thrown.h"
#include "tests/distributor/transports/conformance.h"
#include "tests/support/device/cuda_device.h"

namespace shampoo::test {
namespace {

using namespace std::chrono_literals;

void check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

/// Behind a stream of this thread's device.
class DeviceMemory final : public LeasedMemory {
 public:
  DeviceMemory() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~DeviceMemory() override { cudaStreamDestroy(stream_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  cudaStream_t cuda_stream() const { return stream_; }
  StreamRef stream() const override { return stream_ref(stream_); }
  std::shared_ptr<void> allocate(std::size_t bytes) override {
    void* memory = nullptr;
    check(cudaMalloc(&memory, std::max<std::size_t>(bytes, 1)));
    return {memory, cudaFree};
  }
  void* address(const std::shared_ptr<void>& memory) override { return memory.get(); }
  void write(void* to, const void* from_host, std::size_t bytes) override {
    check(cudaMemcpyAsync(to, from_host, bytes, cudaMemcpyHostToDevice, stream_));
    check(cudaStreamSynchronize(stream_));
  }
  void read(void* to_host, const void* from, std::size_t bytes) override {
    if (bytes > 0) check(cudaMemcpyAsync(to_host, from, bytes, cudaMemcpyDeviceToHost, stream_));
    check(cudaStreamSynchronize(stream_));
  }

 private:
  cudaStream_t stream_ = nullptr;
};

void conform_on_devices(int devices) {
  std::vector<int> as_threads(static_cast<std::size_t>(devices));
  run_ranks(devices, [&](Communicator& host) {
    check(cudaSetDevice(host.rank()));
    DeviceMemory memory;
    const auto ranks = nccl_communicator(host, {.deadline = 60s});
    as_threads[host.rank()] =
        conform(*ranks, memory) == checksum_of_threads(host.rank(), host.size());
    ranks->check();
  });
  EXPECT_EQ(std::ranges::count(as_threads, 1), devices);
}

using NcclOnOneDevice = WithCudaDevices<1>;
using NcclOnTwoDevices = WithCudaDevices<2>;

TEST_F(NcclOnOneDevice, ConformsAndSumsAsThreadsDo) { conform_on_devices(1); }

TEST_F(NcclOnOneDevice, SumsWhateverErrorTheCallerHasNotRead) {
  DeviceMemory memory;
  const float parts[] = {1, 2};
  const auto from = memory.allocate(sizeof(parts)), sum = memory.allocate(sizeof(float));
  memory.write(from.get(), parts, sizeof(parts));
  ASSERT_EQ(cudaSetDevice(-1), cudaErrorInvalidDevice);
  EXPECT_EQ(ordered_sum_on(memory.stream(), from.get(), 2, 1, Type::float32, 2, sum.get()), 0);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice) << "it is still the caller's to read";
  float mean = 0;
  memory.read(&mean, sum.get(), sizeof(mean));
  EXPECT_EQ(mean, 1.5f);
}

TEST_F(NcclOnTwoDevices, ConformAndSumAsThreadsDo) {
  conform_on_devices(kernels::cuda::device_count());
}

TEST_F(NcclOnTwoDevices, ARankThatDoesNotComeFreesTheStreamOfTheOther) {
  run_ranks(2, [](Communicator& host) {
    check(cudaSetDevice(host.rank()));
    DeviceMemory memory;
    const auto ranks = nccl_communicator(host, {.deadline = 60s});
    ranks->barrier({.stream = memory.stream()}).wait();
    check(cudaStreamSynchronize(memory.cuda_stream()));
    ranks->set_deadline(500ms);
    if (host.rank() == 0) {
      ranks->barrier({.stream = memory.stream()}).wait();
      check(cudaStreamSynchronize(memory.cuda_stream()));
      EXPECT_NE(ranks->failure().find("not complete within 0.5 s"), std::string::npos);
    }
    host.barrier().wait();
  });
}

TEST_F(NcclOnOneDevice, CollectivesAreCapturedAndReplayed) {
  DeviceMemory memory;
  const auto host = single_rank_communicator();
  const auto ranks = nccl_communicator(*host, {.deadline = 60s});
  Leased<float> numbers(memory, std::vector<float>(1000, 1.5f));
  const std::vector<std::int64_t> counts{4000};
  ranks->all_gather(numbers.data(), counts, {.stream = memory.stream()}).wait();
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t program = nullptr;
  check(cudaStreamBeginCapture(memory.cuda_stream(), cudaStreamCaptureModeThreadLocal));
  ranks->all_gather(numbers.data(), counts, {.stream = memory.stream()}).wait();
  check(cudaStreamEndCapture(memory.cuda_stream(), &graph));
  check(cudaGraphInstantiate(&program, graph, 0));
  for (int replay = 0; replay < 20; ++replay) {
    check(cudaGraphLaunch(program, memory.cuda_stream()));
    ranks->watch(memory.stream());
  }
  EXPECT_EQ(numbers.read(), std::vector<float>(1000, 1.5f));
  ranks->check();
  check(cudaGraphExecDestroy(program));
  check(cudaGraphDestroy(graph));
}

TEST_F(NcclOnOneDevice, GathersInMemoryOfTheCommunicator) {
  DeviceMemory memory;
  const auto host = single_rank_communicator();
  const auto ranks = nccl_communicator(*host, {.deadline = 60s});
  const std::shared_ptr<void> bytes = ranks->allocate(3 << 20);
  ASSERT_NE(bytes, nullptr);
  std::vector<char> read(3 << 20, 'x');

  ranks->all_gather(bytes.get(), std::vector<std::int64_t>{3 << 20}, {.stream = memory.stream()})
      .wait();
  memory.read(read.data(), bytes.get(), read.size());

  EXPECT_EQ(std::ranges::count(read, '\0'), 3 << 20);
  ranks->check();
}

TEST_F(NcclOnOneDevice, JoinsOnTheDeviceOfTheBackendAndItsDefaultStream) {
  const auto backend = cuda_backend({.device = kernels::cuda::device_count() - 1});
  const auto ranks = join(*backend, {.launcher = Launcher::one_rank, .transport = Transport::nccl});
  const std::shared_ptr<void> number(backend->allocate(sizeof(float)),
                                     [&](void* memory) { backend->release(memory); });

  ranks->all_gather(number.get(), std::vector<std::int64_t>{sizeof(float)}).wait();
  backend->synchronize();

  EXPECT_EQ(ranks->failure(), "");
}

TEST_F(NcclOnOneDevice, ABorrowedCommunicatorIsStillTheCallers) {
  ncclUniqueId id;
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ASSERT_EQ(ncclCommInitRank(&comm, 1, id, 0), ncclSuccess);
  {
    DeviceMemory memory;
    const auto ranks = nccl_communicator(comm);
    EXPECT_EQ(conform(*ranks, memory), checksum_of_threads(0, 1));
  }
  int size = 0;
  EXPECT_EQ(ncclCommCount(comm, &size), ncclSuccess);
  EXPECT_EQ(size, 1);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

TEST(Nccl, RefusesArgumentsOutOfRange) {
  const auto host = single_rank_communicator(), device = single_rank_communicator(MemoryKind::cuda);
  const auto refusal = [](const auto& call) { return error_of<std::invalid_argument>(call); };
  EXPECT_EQ(refusal([&] { nccl_communicator(*device); }), "ranks: must use host memory");
  EXPECT_TRUE(refusal([&] { nccl_communicator(*host, {.device = -2}); }).starts_with("device: "));
  EXPECT_TRUE(
      refusal([&] { nccl_communicator(*host, {.deadline = 0ms}); }).starts_with("deadline"));
  EXPECT_TRUE(refusal([&] { nccl_communicator(2, 2, nullptr); }).starts_with("rank: "));
  EXPECT_TRUE(refusal([&] { nccl_communicator(0, 0, nullptr); }).starts_with("size: "));
  EXPECT_TRUE(refusal([&] { nccl_communicator(0, 1, nullptr); }).starts_with("store: "));
  EXPECT_TRUE(refusal([&] { nccl_communicator_of(nullptr); }).starts_with("nccl_comm: "));
  EXPECT_TRUE(refusal([&] { nccl_communicator(ncclComm_t{}); }).starts_with("nccl_comm: "));
}

TEST(Nccl, WithoutADeviceSaysSo) {
  if (kernels::cuda::device_count() > 0) GTEST_SKIP() << "there is a device";
  const auto host = single_rank_communicator();
  const std::string text = error_of<std::exception>([&] { nccl_communicator(*host); });
  EXPECT_FALSE(text.empty());
}

}  // namespace
}  // namespace shampoo::test
