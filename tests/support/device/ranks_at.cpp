// SPDX-License-Identifier: Apache-2.0
#include "tests/support/device/ranks_at.h"

#include <memory>
#include <stdexcept>

#include "distributor/communicator.h"
#include "kernels/cuda/device_backend.h"
#include "tests/support/device/emulated_device.h"
#include "tests/support/device/stream_communicator.h"

namespace shampoo::test {

namespace {

void run_on_emulated_device(Communicator& threads, const RankBody& body) {
  auto owned = std::make_unique<EmulatedDevice>();
  EmulatedDevice& device = *owned;
  kernels::cuda::DeviceBackend backend(std::move(owned));
  StreamCommunicator communicator(threads, device);
  body(communicator, backend);
}

}  // namespace

void run_ranks_at(Place place, int n, const RankBody& body) {
  if (n == 1) {
    const auto backend = backend_at(place, 1);
    const auto alone = single_rank_communicator(backend->memory_kind());
    return body(*alone, *backend);
  }
  if (place == Place::cuda) throw std::invalid_argument("run_ranks_at: one rank on a GPU");
  run_ranks(n, [&](Communicator& threads) {
    if (place == Place::emulated) return run_on_emulated_device(threads, body);
    const auto backend = backend_at(place, 1);
    body(threads, *backend);
  });
}

void require_ranks(Place place) {
  require(place);
  if (::testing::Test::IsSkipped() || ::testing::Test::HasFatalFailure()) return;
  if (place == Place::cuda) GTEST_SKIP() << "one GPU is no place for several ranks";
}

}  // namespace shampoo::test
