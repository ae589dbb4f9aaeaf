// SPDX-License-Identifier: Apache-2.0
#include "distributor/transports/nccl/nccl_api.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstring>

#include "distributor/communicator.h"
#include "kernels/backend.h"
#include "kernels/cuda/device/cuda_status.h"
#include "kernels/cuda/device/device_query.h"

namespace shampoo {

namespace {

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // must not affect the caller's next call
  throw CommunicationError(std::string(call) + ": " + cudaGetErrorString(status));
}

/// ncclInProgress is not an error.
void check(ncclResult_t result, const char* call, ncclComm_t comm = nullptr) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  const char* const more = ncclGetLastError(comm);
  throw CommunicationError(std::string(call) + ": " + ncclGetErrorString(result) +
                           (more && *more ? std::string(" (") + more + ")" : ""));
}

using kernels::cuda::OnDevice;

OnDevice make_current(int device) {
  try {
    return OnDevice(device);
  } catch (const DeviceError& error) {
    throw CommunicationError(error.what());
  }
}

ncclConfig_t without_blocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

ncclComm_t nccl(NcclApi::Comm comm) { return static_cast<ncclComm_t>(comm); }
cudaStream_t cuda(NcclApi::Stream stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t event_of(NcclApi::Event event) { return static_cast<cudaEvent_t>(event); }

class CudaNcclApi final : public NcclApi {
 public:
  explicit CudaNcclApi(int device) : device_(device) {}

  std::string description() override {
    int version = 0;
    check(ncclGetVersion(&version), "ncclGetVersion");
    return "NCCL " + std::to_string(version / 10000) + "." + std::to_string(version % 10000 / 100) +
           "." + std::to_string(version % 100) + ", " + kernels::cuda::describe_device(device_);
  }

  std::string device_name() override {
    const kernels::cuda::DeviceFacts facts = kernels::cuda::device_facts(device_);
    return facts.name + " at " + facts.bus + ", " + facts.uuid;
  }

  std::string unique_id() override {
    ncclUniqueId id;
    check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    return {id.internal, sizeof(id.internal)};
  }

  Comm connect(const Position& position, const std::string& unique_id) override {
    ncclUniqueId id;
    if (unique_id.size() != sizeof(id.internal))
      throw CommunicationError("the unique id of NCCL has " + std::to_string(unique_id.size()) +
                               " bytes instead of " + std::to_string(sizeof(id.internal)));
    std::memcpy(id.internal, unique_id.data(), sizeof(id.internal));
    const OnDevice here = make_current(device_);
    ncclConfig_t config = without_blocking();
    ncclComm_t comm = nullptr;
    check(ncclCommInitRankConfig(&comm, position.size, id, position.rank, &config),
          "ncclCommInitRankConfig");
    return comm;
  }

  void split(Comm comm, int color, int key, Comm& subset) override {
    const OnDevice here = make_current(device_);
    ncclConfig_t config = without_blocking();
    check(ncclCommSplit(nccl(comm), color < 0 ? NCCL_SPLIT_NOCOLOR : color, key,
                        reinterpret_cast<ncclComm_t*>(&subset), &config),
          "ncclCommSplit", nccl(comm));
  }

  bool is_ready(Comm comm) override {
    ncclResult_t state = ncclSuccess;
    check(ncclCommGetAsyncError(nccl(comm), &state), "ncclCommGetAsyncError", nccl(comm));
    check(state, "NCCL", nccl(comm));
    return state == ncclSuccess;
  }

  Position position(Comm comm) override {
    Position found{};
    check(ncclCommUserRank(nccl(comm), &found.rank), "ncclCommUserRank", nccl(comm));
    check(ncclCommCount(nccl(comm), &found.size), "ncclCommCount", nccl(comm));
    return found;
  }

  void finalize(Comm comm) override {
    check(ncclCommFinalize(nccl(comm)), "ncclCommFinalize", nccl(comm));
  }
  void destroy(Comm comm) noexcept override { ncclCommDestroy(nccl(comm)); }
  void abort(Comm comm) noexcept override { ncclCommAbort(nccl(comm)); }

  void begin_group() override { check(ncclGroupStart(), "ncclGroupStart"); }
  void end_group() override { check(ncclGroupEnd(), "ncclGroupEnd"); }

  void all_gather(const void* send, void* receive, std::int64_t bytes, Comm comm,
                  Stream stream) override {
    check(ncclAllGather(send, receive, size(bytes), ncclUint8, nccl(comm), cuda(stream)),
          "ncclAllGather", nccl(comm));
  }
  void broadcast(void* data, std::int64_t bytes, int root, Comm comm, Stream stream) override {
    check(ncclBroadcast(data, data, size(bytes), ncclUint8, root, nccl(comm), cuda(stream)),
          "ncclBroadcast", nccl(comm));
  }
  void send(const void* data, std::int64_t bytes, int to, Comm comm, Stream stream) override {
    check(ncclSend(data, size(bytes), ncclUint8, to, nccl(comm), cuda(stream)), "ncclSend",
          nccl(comm));
  }
  void receive(void* data, std::int64_t bytes, int from, Comm comm, Stream stream) override {
    check(ncclRecv(data, size(bytes), ncclUint8, from, nccl(comm), cuda(stream)), "ncclRecv",
          nccl(comm));
  }
  void barrier(void* byte, Comm comm, Stream stream) override {
    check(ncclAllReduce(byte, byte, 1, ncclUint8, ncclSum, nccl(comm), cuda(stream)),
          "ncclAllReduce", nccl(comm));
  }

  void* register_memory(Comm comm, void* memory, std::int64_t bytes) override {
    void* registration = nullptr;
    const ncclResult_t result = ncclCommRegister(nccl(comm), memory, size(bytes), &registration);
    return result == ncclSuccess ? registration : nullptr;
  }
  void deregister_memory(Comm comm, void* registration) noexcept override {
    ncclCommDeregister(nccl(comm), registration);
  }

  void enter_thread() override {
    check(cudaSetDevice(device_), "cudaSetDevice");
    // Polling events must not invalidate a capture on another thread.
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    check(cudaThreadExchangeStreamCaptureMode(&mode), "cudaThreadExchangeStreamCaptureMode");
  }

  Stream make_stream() override {
    const OnDevice here = make_current(device_);
    int least = 0, greatest = 0;
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest),
          "cudaStreamCreateWithPriority");
    return stream;
  }
  void destroy_stream(Stream stream) noexcept override { cudaStreamDestroy(cuda(stream)); }

  Event make_event() override {
    const OnDevice here = make_current(device_);
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    return event;
  }
  void destroy_event(Event event) noexcept override { cudaEventDestroy(event_of(event)); }
  // The default stream is that of the current device.
  void record(Event event, Stream stream) override {
    const OnDevice here = make_current(device_);
    check(cudaEventRecord(event_of(event), cuda(stream)), "cudaEventRecord");
  }
  void wait(Stream stream, Event event) override {
    const OnDevice here = make_current(device_);
    check(cudaStreamWaitEvent(cuda(stream), event_of(event), 0), "cudaStreamWaitEvent");
  }
  void record_external(Event event, Stream stream) override {
    const OnDevice here = make_current(device_);
    const unsigned flags = is_capturing(stream) ? cudaEventRecordExternal : cudaEventRecordDefault;
    check(cudaEventRecordWithFlags(event_of(event), cuda(stream), flags),
          "cudaEventRecordWithFlags");
  }
  void wait_external(Stream stream, Event event) override {
    const OnDevice here = make_current(device_);
    const unsigned flags = is_capturing(stream) ? cudaEventWaitExternal : cudaEventWaitDefault;
    check(cudaStreamWaitEvent(cuda(stream), event_of(event), flags), "cudaStreamWaitEvent");
  }

  bool is_done(Event event) override {
    const bool was_clean = cudaPeekAtLastError() == cudaSuccess;
    const cudaError_t status = cudaEventQuery(event_of(event));
    if (status != cudaErrorNotReady) check(status, "cudaEventQuery");
    if (status == cudaErrorNotReady && was_clean) cudaGetLastError();
    return status == cudaSuccess;
  }

  std::uint64_t capture_of(Stream stream) override {
    const OnDevice here = make_current(device_);
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    unsigned long long id = UINT64_MAX;  // stays if the capture is invalid
    check(cudaStreamGetCaptureInfo(cuda(stream), &status, &id), "cudaStreamGetCaptureInfo");
    return status == cudaStreamCaptureStatusNone ? 0 : id;
  }

  void* allocate_registrable(std::size_t bytes) override {
    const OnDevice here = make_current(device_);
    void* memory = nullptr;
    if (ncclMemAlloc(&memory, bytes) != ncclSuccess) return nullptr;
    try {
      check(cudaMemset(memory, 0, bytes), "cudaMemset");
      check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
    } catch (...) {
      ncclMemFree(memory);
      throw;
    }
    return memory;
  }
  void release_registrable(void* memory) noexcept override {
    if (memory != nullptr) ncclMemFree(memory);
  }
  void* allocate(std::size_t bytes) override {
    const OnDevice here = make_current(device_);
    void* memory = nullptr;
    check(cudaMalloc(&memory, bytes), "cudaMalloc");
    return memory;
  }
  void release(void* memory) noexcept override { cudaFree(memory); }
  void copy(void* to, const void* from, std::int64_t bytes, Stream stream) override {
    const OnDevice here = make_current(device_);
    check(cudaMemcpyAsync(to, from, size(bytes), cudaMemcpyDefault, cuda(stream)),
          "cudaMemcpyAsync");
  }
  void ordered_sum(const void* parts, int n, std::int64_t count, Type type, double divisor,
                   void* sum, Stream stream) override {
    const OnDevice here = make_current(device_);
    check(static_cast<cudaError_t>(ordered_sum_on({stream}, parts, n, count, type, divisor, sum)),
          "ordered_sum kernel");
  }

 private:
  static std::size_t size(std::int64_t bytes) { return static_cast<std::size_t>(bytes); }

  const int device_;
};

}  // namespace

std::unique_ptr<NcclApi> make_nccl_api(int device) { return std::make_unique<CudaNcclApi>(device); }

}  // namespace shampoo
