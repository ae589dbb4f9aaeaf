// SPDX-License-Identifier: Apache-2.0
#include "distributor/transports/nccl/nccl_reducer.h"

namespace shampoo {

NcclSumming::~NcclSumming() {
  calls_->release(packed_.memory);
  calls_->release(received_.memory);
}

char* NcclSumming::Array::grown(NcclCalls& calls, std::int64_t wanted) {
  if (wanted > bytes) {
    calls.release(memory);
    memory = nullptr;
    bytes = 0;
    memory = calls.allocate(static_cast<std::size_t>(wanted));
    bytes = wanted;
  }
  return static_cast<char*>(memory);
}

void NcclSumming::copy(void* to, const void* from, std::int64_t bytes, StreamRef stream) {
  calls_->copy(to, from, bytes, stream.handle);
}

void NcclSumming::sum_in_order(const void* parts, int n, std::int64_t count, Type type,
                               double divisor, void* sum, StreamRef stream) {
  calls_->sum_in_order(parts, n, count, type, divisor, sum, stream.handle);
}

}  // namespace shampoo
