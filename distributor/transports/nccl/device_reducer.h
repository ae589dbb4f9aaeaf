// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

#include "distributor/reduction.h"
#include "distributor/transports/nccl/nccl_api.h"

namespace shampoo {

/// Reductions in device memory.
class DeviceReducer final : public Reducer {
 public:
  explicit DeviceReducer(std::shared_ptr<NcclApi> api) : api_(std::move(api)) {}
  ~DeviceReducer() override {
    api_->release(packed_.memory);
    api_->release(received_.memory);
  }
  DeviceReducer(const DeviceReducer&) = delete;
  DeviceReducer& operator=(const DeviceReducer&) = delete;

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
  struct Scratch {
    void* memory = nullptr;
    std::int64_t bytes = 0;
  };

  /// Blocks until the device is idle if memory is reallocated.
  char* grow(Scratch& scratch, std::int64_t bytes) {
    if (bytes > scratch.bytes) {
      api_->release(scratch.memory);
      scratch = {};
      scratch.memory = api_->allocate(static_cast<std::size_t>(bytes));
      scratch.bytes = bytes;
    }
    return static_cast<char*>(scratch.memory);
  }

  std::shared_ptr<NcclApi> api_;
  Scratch packed_, received_;
};

}  // namespace shampoo
