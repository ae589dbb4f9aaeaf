// SPDX-License-Identifier: Apache-2.0
#include "distributor/transports/gloo/gloo.h"

#include <gloo/transport/tcp/device.h>
#include <netdb.h>

#include <stdexcept>

#include "distributor/system/host_name.h"
#include "distributor/system/sigpipe_guard.h"
#include "distributor/transports/gloo/gloo_listener.h"
#include "distributor/transports/gloo/gloo_transport.h"
#include "distributor/transports/transport.h"

namespace shampoo {

namespace {

void validate(const RankInfo& info, const std::shared_ptr<Store>& store,
              const GlooOptions& options) {
  validate_rank_info(info, "info.");
  if (info.memory != MemoryKind::host)
    throw std::invalid_argument("info.memory: must be host memory");
  if (!store) throw std::invalid_argument("store: must not be null");
  validate_deadline(options.deadline);
}

/// Gloo before May 2025 reads an uninitialized pointer if the name is unknown.
void check_name(const std::string& host) {
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, nullptr, &found);
  if (error != 0) throw std::runtime_error(gai_strerror(error));
  freeaddrinfo(found);
}

}  // namespace

bool has_gloo() { return true; }

std::shared_ptr<gloo::transport::Device> listen_gloo(const std::string& host) {
  const SigpipeGuard no_sigpipe;  // inherited by the device's thread
  try {
    check_name(host);
    return gloo::transport::tcp::CreateDevice(host.c_str());
  } catch (const std::exception& error) {
    throw std::invalid_argument("host: must be an address or name of this host, got \"" + host +
                                "\": " + error.what());
  }
}

std::unique_ptr<Communicator> gloo_communicator(const RankInfo& info, std::shared_ptr<Store> store,
                                                std::shared_ptr<gloo::transport::Device> device,
                                                const GlooOptions& options) {
  validate(info, store, options);
  const auto end = std::chrono::steady_clock::now() + options.deadline;
  auto locked = std::make_shared<SynchronizedStore>(std::move(store), options.deadline);
  return connect_gloo(info,
                      {.store = std::move(locked),
                       .store_server = options.store_server,
                       .device = std::move(device),
                       .host = options.host + " of " + host_name(),
                       .prefix = options.prefix,
                       .deadline = options.deadline},
                      end);
}

std::unique_ptr<Communicator> gloo_communicator(const RankInfo& info, std::shared_ptr<Store> store,
                                                const GlooOptions& options) {
  validate(info, store, options);
  return gloo_communicator(info, std::move(store), listen_gloo(options.host), options);
}

}  // namespace shampoo
