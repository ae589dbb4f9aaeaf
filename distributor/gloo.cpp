// SPDX-License-Identifier: Apache-2.0
#include "distributor/gloo.h"

#include <gloo/transport/tcp/device.h>
#include <unistd.h>

#include <array>
#include <stdexcept>

#include "distributor/gloo_communicator.h"

namespace shampoo {

namespace {

void check(const Standing& standing, const std::shared_ptr<Store>& store,
           const GlooOptions& options) {
  const auto refuse = [](const std::string& what) { throw std::invalid_argument(what); };
  if (standing.size < 1)
    refuse("standing.size: must be at least 1, got " + std::to_string(standing.size));
  if (standing.rank < 0 || standing.rank >= standing.size)
    refuse("standing.rank: must be from 0 to " + std::to_string(standing.size - 1) + ", got " +
           std::to_string(standing.rank));
  if (standing.local_rank < 0)
    refuse("standing.local_rank: must be at least 0, got " + std::to_string(standing.local_rank));
  if (standing.memory != Memory::host) refuse("standing.memory: must be host memory");
  if (!store) refuse("store: must not be null");
  if (options.deadline.count() < 1)
    refuse("deadline: must be at least 1 ms, got " + std::to_string(options.deadline.count()) +
           " ms");
}

std::shared_ptr<gloo::transport::Device> listen(const std::string& host) {
  try {
    return gloo::transport::tcp::CreateDevice(host.c_str());
  } catch (const std::exception& error) {
    throw std::invalid_argument("host: must be an address or name of this host, got \"" + host +
                                "\": " + error.what());
  }
}

std::string own_host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace

bool has_gloo() { return true; }

std::unique_ptr<Communicator> gloo_communicator(const Standing& standing,
                                                std::shared_ptr<Store> store,
                                                const GlooOptions& options) {
  check(standing, store, options);
  const auto device = listen(options.host);
  return connect_gloo(standing, {.store = std::make_shared<LockedStore>(std::move(store)),
                                 .device = device,
                                 .host = options.host + " of " + own_host_name(),
                                 .prefix = options.prefix,
                                 .deadline = options.deadline});
}

}  // namespace shampoo
