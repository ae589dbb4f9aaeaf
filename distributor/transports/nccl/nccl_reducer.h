// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

#include "distributor/reduction.h"
#include "distributor/transports/nccl/nccl_api.h"

namespace shampoo {

/// Sums in the device's memory.
class NcclSumming final : public Reducer {
 public:
  explicit NcclSumming(std::shared_ptr<NcclCalls> calls) : calls_(std::move(calls)) {}
  ~NcclSumming() override;
  NcclSumming(const NcclSumming&) = delete;
  NcclSumming& operator=(const NcclSumming&) = delete;

  char* packed(std::int64_t bytes) override { return packed_.grown(*calls_, bytes); }
  char* received(std::int64_t bytes) override { return received_.grown(*calls_, bytes); }
  void copy(void* to, const void* from, std::int64_t bytes, StreamRef stream) override;
  void sum_in_order(const void* parts, int n, std::int64_t count, Type type, double divisor,
                    void* sum, StreamRef stream) override;

 private:
  struct Array {
    void* memory = nullptr;
    std::int64_t bytes = 0;

    /// Growing waits for the device.
    char* grown(NcclCalls& calls, std::int64_t wanted);
  };

  std::shared_ptr<NcclCalls> calls_;
  Array packed_, received_;
};

}  // namespace shampoo
