// SPDX-License-Identifier: Apache-2.0
// Part of the tests' module for Gloo, whose calls of these functions it counts.
#include <dlfcn.h>
#include <gloo/allgatherv.h>
#include <gloo/allreduce.h>
#include <gloo/alltoallv.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace shampoo::test {
namespace {

std::atomic<std::int64_t> collectives{0};

/// Counts, and goes on to the library's own function of this mangled name.
template <typename Options>
void count_and_call(const char* name, Options& options) {
  ++collectives;
  const auto call = reinterpret_cast<void (*)(Options&)>(dlsym(RTLD_NEXT, name));
  if (!call) throw std::runtime_error(std::string("Gloo has no ") + name);
  call(options);
}

}  // namespace

}  // namespace shampoo::test

extern "C" __attribute__((visibility("default"))) std::int64_t shampoo_gloo_collectives() {
  return shampoo::test::collectives;
}

namespace gloo {

using shampoo::test::count_and_call;

void allgatherv(AllgathervOptions& options) {
  count_and_call("_ZN4gloo10allgathervERNS_17AllgathervOptionsE", options);
}

void alltoallv(AlltoallvOptions& options) {
  count_and_call("_ZN4gloo9alltoallvERNS_16AlltoallvOptionsE", options);
}

void broadcast(BroadcastOptions& options) {
  count_and_call("_ZN4gloo9broadcastERNS_16BroadcastOptionsE", options);
}

void barrier(BarrierOptions& options) {
  count_and_call("_ZN4gloo7barrierERNS_14BarrierOptionsE", options);
}

void allreduce(const AllreduceOptions& options) {
  count_and_call("_ZN4gloo9allreduceERKNS_16AllreduceOptionsE", options);
}

}  // namespace gloo
