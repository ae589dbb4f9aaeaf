// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device/cuda_device.h"

#include <nvtx3/nvToolsExt.h>

#include <new>
#include <variant>
#include <vector>

#include "kernels/cuda/device/cuda_status.h"
#include "kernels/cuda/device/device_query.h"
#include "kernels/cuda/launch/start.h"

namespace shampoo::kernels::cuda {

namespace {

/// Records the event behind what is queued; in a graph, at every replay.
void record(cudaEvent_t event, cudaStream_t stream, int device) {
  const OnDevice current(device);
  const unsigned flags =
      is_capturing(stream, device) ? cudaEventRecordExternal : cudaEventRecordDefault;
  check(cudaEventRecordWithFlags(event, stream, flags), "cudaEventRecordWithFlags", device);
}

/// An event that waiting threads sleep on.
class CudaMark final : public Mark {
 public:
  CudaMark(int device, cudaStream_t stream) : device_(device), stream_(stream) {
    check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming | cudaEventBlockingSync),
          "cudaEventCreateWithFlags", device);
  }
  ~CudaMark() override { cudaEventDestroy(event_); }

  void set() override { record(event_, stream_, device_); }

  void wait() override {
    const OnDevice current(device_);
    refuse_capture(stream_, device_, "wait");
    check(cudaEventSynchronize(event_), "cudaEventSynchronize", device_);
  }

 private:
  int device_;
  cudaStream_t stream_;
  cudaEvent_t event_ = nullptr;
};

/// An event for every point.
class CudaTimeline final : public Timeline {
 public:
  CudaTimeline(int device, cudaStream_t stream, std::size_t points)
      : device_(device), stream_(stream), events_(points) {
    for (auto& event : events_) {
      cudaEvent_t made = nullptr;
      check(cudaEventCreate(&made), "cudaEventCreate", device);
      event.reset(made);
    }
  }

  void mark(std::size_t point) override { record(events_[point].get(), stream_, device_); }

  std::optional<double> seconds(std::size_t from, std::size_t to) override {
    const OnDevice current(device_);
    float milliseconds = 0;
    const cudaError_t status =
        cudaEventElapsedTime(&milliseconds, events_[from].get(), events_[to].get());
    if (status == cudaErrorInvalidResourceHandle || status == cudaErrorNotReady) {
      cudaGetLastError();
      return {};
    }
    check(status, "cudaEventElapsedTime", device_);
    return milliseconds * 1e-3;
  }

 private:
  struct Destroy {
    void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
  };

  int device_;
  cudaStream_t stream_;
  std::vector<std::unique_ptr<CUevent_st, Destroy>> events_;
};

/// What the bits of results depend on: the processor and the versions of the libraries.
std::string arithmetic_of(int device) {
  const DeviceFacts facts = device_facts(device);
  int solver = 0;
  cusolverGetVersion(&solver);
  return "cuda, sm_" + std::to_string(facts.major) + std::to_string(facts.minor) + ", " +
         std::to_string(facts.multiprocessors) + " multiprocessors, cuBLASLt " +
         std::to_string(cublasLtGetVersion()) + ", cuSOLVER " + std::to_string(solver);
}

}  // namespace

CudaDevice::CudaDevice(const CudaOptions& options)
    : device_(options.device),
      stream_(static_cast<cudaStream_t>(options.stream)),
      description_("cuda device " + std::to_string(device_) + ", " + describe_device(device_)),
      arithmetic_(arithmetic_of(device_)),
      memory_(device_, stream_, options.allocator),
      products_(device_, stream_),
      eigen_(device_, stream_, memory_) {}

CudaDevice::~CudaDevice() = default;

MemoryUse CudaDevice::memory_use() const {
  const OnDevice current(device_);
  return {.scratch = static_cast<std::int64_t>(eigen_.scratch_bytes()),
          .pool = static_cast<std::int64_t>(memory_.pool_bytes())};
}

void* CudaDevice::allocate(std::size_t bytes) {
  const OnDevice current(device_);
  return memory_.allocate(bytes);
}

void CudaDevice::release(void* memory) noexcept { memory_.release(memory); }

void CudaDevice::trim() {
  synchronize();
  const OnDevice current(device_);
  memory_.trim();
}

void* CudaDevice::allocate_host(std::size_t bytes) {
  const OnDevice current(device_);
  refuse_capture(stream_, device_, "allocate_host");
  void* memory = nullptr;
  const cudaError_t status = cudaHostAlloc(&memory, bytes == 0 ? 1 : bytes, cudaHostAllocPortable);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    throw std::bad_alloc();
  }
  check(status, "cudaHostAlloc", device_);
  return memory;
}

void CudaDevice::release_host(void* memory) noexcept {
  if (memory != nullptr) cudaFreeHost(memory);
}

void CudaDevice::zero(void* memory, std::size_t bytes) {
  const OnDevice current(device_);
  check(cudaMemsetAsync(memory, 0, bytes, stream_), "cudaMemsetAsync", device_);
}

void CudaDevice::upload(void* to, const void* from_host, std::size_t bytes) {
  const OnDevice current(device_);
  check(cudaMemcpyAsync(to, from_host, bytes, cudaMemcpyHostToDevice, stream_),
        "cudaMemcpyAsync to the device", device_);
}

void CudaDevice::download(void* to_host, const void* from, std::size_t bytes) {
  const OnDevice current(device_);
  check(cudaMemcpyAsync(to_host, from, bytes, cudaMemcpyDeviceToHost, stream_),
        "cudaMemcpyAsync to the host", device_);
}

void CudaDevice::copy(void* to, const void* from, std::size_t bytes) {
  const OnDevice current(device_);
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_), "cudaMemcpyAsync",
        device_);
}

std::unique_ptr<Mark> CudaDevice::make_mark() {
  const OnDevice current(device_);
  return std::make_unique<CudaMark>(device_, stream_);
}

std::unique_ptr<Timeline> CudaDevice::make_timeline(std::size_t points) {
  const OnDevice current(device_);
  return std::make_unique<CudaTimeline>(device_, stream_, points);
}

bool CudaDevice::is_capturing() const {
  const OnDevice current(device_);
  return cuda::is_capturing(stream_, device_);
}

void CudaDevice::begin_range(const char* name) { nvtxRangePushA(name); }
void CudaDevice::end_range() { nvtxRangePop(); }

bool CudaDevice::is_idle() {
  const OnDevice current(device_);
  if (is_capturing()) return false;
  const cudaError_t status = cudaStreamQuery(stream_);
  if (status == cudaErrorNotReady) {
    cudaGetLastError();
    return false;
  }
  check(status, "cudaStreamQuery", device_);
  return true;
}

void CudaDevice::synchronize() {
  const OnDevice current(device_);
  refuse_capture(stream_, device_, "synchronize");
  check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize", device_);
}

void CudaDevice::launch(std::int64_t blocks, const Kernel& kernel) {
  if (blocks == 0) return;
  const OnDevice current(device_);
  const int status =
      std::visit([&](const auto& program) { return start(blocks, program, stream_); }, kernel);
  check(static_cast<cudaError_t>(status), "kernel launch", device_);
}

void CudaDevice::multiply(const Product& product) {
  const OnDevice current(device_);
  products_.multiply(product);
}

void CudaDevice::reserve_products(std::span<const Product> products) {
  const OnDevice current(device_);
  products_.reserve(products);
}

void CudaDevice::reserve_eigen(std::int64_t side) {
  const OnDevice current(device_);
  eigen_.reserve(side);
}

void CudaDevice::decompose(const EigenProblem& problem) {
  const OnDevice current(device_);
  eigen_.decompose(problem);
}

}  // namespace shampoo::kernels::cuda
