// SPDX-License-Identifier: Apache-2.0
#include "distributor/transports/gloo/gloo.h"

#include <gloo/transport/tcp/device.h>

#include <stdexcept>

#include "distributor/system/host_name.h"
#include "distributor/system/sigpipe_guard.h"
#include "distributor/transports/gloo/gloo_communicator.h"
#include "distributor/transports/gloo/gloo_listener.h"

namespace shampoo {

namespace {

void check(const RankInfo& standing, const std::shared_ptr<Store>& store,
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

}  // namespace

bool has_gloo() { return true; }

std::shared_ptr<gloo::transport::Device> listen_gloo(const std::string& host) {
  const SigpipeGuard quiet;  // on the device's thread
  try {
    return gloo::transport::tcp::CreateDevice(host.c_str());
  } catch (const std::exception& error) {
    throw std::invalid_argument("host: must be an address or name of this host, got \"" + host +
                                "\": " + error.what());
  }
}

std::unique_ptr<Communicator> gloo_communicator(const RankInfo& standing,
                                                std::shared_ptr<Store> store,
                                                std::shared_ptr<gloo::transport::Device> device,
                                                const GlooOptions& options,
                                                std::vector<std::string> hosts) {
  check(standing, store, options);
  auto locked = std::make_shared<SynchronizedStore>(std::move(store), options.deadline);
  return connect_gloo(standing, {.store = std::move(locked),
                                 .store_server = options.store_server,
                                 .device = std::move(device),
                                 .host = options.host + " of " + host_name(),
                                 .prefix = options.prefix,
                                 .deadline = options.deadline,
                                 .hosts = std::move(hosts)});
}

std::unique_ptr<Communicator> gloo_communicator(const RankInfo& standing,
                                                std::shared_ptr<Store> store,
                                                const GlooOptions& options) {
  check(standing, store, options);
  return gloo_communicator(standing, std::move(store), listen_gloo(options.host), options);
}

}  // namespace shampoo
