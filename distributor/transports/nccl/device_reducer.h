// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "distributor/reduction.h"
#include "distributor/transports/nccl/nccl_api.h"

namespace shampoo {

/// Reductions in device memory. Scratch memory that graphs may use stays until the end.
class DeviceReducer final : public Reducer {
 public:
  explicit DeviceReducer(std::shared_ptr<NcclApi> api)
      : api_(std::move(api)), end_(make_event()), captured_end_(make_event()) {}
  ~DeviceReducer() override {
    api_->release(packed_.memory);
    api_->release(received_.memory);
    for (void* memory : outgrown_) api_->release(memory);
  }
  DeviceReducer(const DeviceReducer&) = delete;
  DeviceReducer& operator=(const DeviceReducer&) = delete;

  void begin(StreamRef stream) override {
    running_in_ = api_->capture_of(stream.handle);
    if (running_in_ != 0 && running_in_ == last_capture_)
      api_->wait(stream.handle, captured_end_.get());
    else
      api_->wait_external(stream.handle, end_.get());
  }
  void end(StreamRef stream) override {
    if (running_in_ != 0) {
      api_->record(captured_end_.get(), stream.handle);
      last_capture_ = running_in_;
    }
    api_->record_external(end_.get(), stream.handle);
  }

  char* packed(std::int64_t bytes) override { return grow(packed_, bytes); }
  char* received(std::int64_t bytes) override { return grow(received_, bytes); }
  void copy(void* to, const void* from, std::int64_t bytes, StreamRef stream) override {
    api_->copy(to, from, bytes, stream.handle);
  }
  void ordered_sum(const void* parts, int n, std::int64_t count, Type type, double divisor,
                   void* sum, StreamRef stream) override {
    api_->ordered_sum(parts, n, count, type, divisor, sum, stream.handle);
  }

 private:
  using OwnedEvent = std::shared_ptr<void>;
  struct Scratch {
    void* memory = nullptr;
    std::int64_t bytes = 0;
    bool captured = false;  ///< a graph may contain its address
  };

  OwnedEvent make_event() const {
    return {api_->make_event(), [api = api_](void* event) { api->destroy_event(event); }};
  }

  /// Blocks until the device is idle if memory is reallocated.
  char* grow(Scratch& scratch, std::int64_t bytes) {
    if (bytes > scratch.bytes) {
      if (scratch.captured)
        outgrown_.push_back(scratch.memory);
      else
        api_->release(scratch.memory);
      scratch = {};
      scratch.memory = api_->allocate(static_cast<std::size_t>(bytes));
      scratch.bytes = bytes;
    }
    scratch.captured = scratch.captured || running_in_ != 0;
    return static_cast<char*>(scratch.memory);
  }

  std::shared_ptr<NcclApi> api_;
  OwnedEvent end_;           ///< of the last reduction that ran, in replays too
  OwnedEvent captured_end_;  ///< of the last one in last_capture_
  std::uint64_t last_capture_ = 0;
  std::uint64_t running_in_ = 0;  ///< the capture that takes the running reduction; 0: none
  Scratch packed_, received_;
  std::vector<void*> outgrown_;  ///< captured
};

/// Of the CUDA device in whose memory `data` lies; null if this build has no CUDA. Throws
/// CommunicationError.
std::shared_ptr<Reducer> make_device_reducer(const void* data);

}  // namespace shampoo
