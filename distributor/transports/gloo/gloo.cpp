// SPDX-License-Identifier: Apache-2.0
#include "distributor/transports/gloo/gloo.h"

#include <netdb.h>

#include <stdexcept>

#include "distributor/system/host_name.h"
#include "distributor/transports/gloo/gloo_module.h"
#include "distributor/transports/gloo/gloo_transport.h"
#include "distributor/transports/module_entry.h"
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
  if (error == 0) return freeaddrinfo(found);
  const std::string text = "\"" + host + "\": " + gai_strerror(error);
  if (error == EAI_SYSTEM || error == EAI_MEMORY || error == EAI_AGAIN)
    throw CommunicationError("host: cannot look up " + text);
  throw std::invalid_argument("host: must be an address or name of this host, got " + text);
}

ModuleEntry<GlooModule> loaded() { return entry_of<GlooModule>("gloo", kernels::Binding::own); }

}  // namespace

const GlooModule& gloo_module() {
  return require_entry(loaded(), "Gloo", "libgloo-dev", "SHAMPOO_GLOO");
}

bool has_gloo() { return loaded().entry != nullptr; }

std::unique_ptr<Communicator> gloo_communicator(const RankInfo& info, std::shared_ptr<Store> store,
                                                const GlooOptions& options) {
  gloo_module();
  validate(info, store, options);
  const auto end = std::chrono::steady_clock::now() + options.deadline;
  check_name(options.host);
  auto locked = std::make_shared<SynchronizedStore>(std::move(store));
  return connect_gloo(info,
                      {.store = std::move(locked),
                       .store_server = options.store_server,
                       .address = options.host,
                       .host = options.host + " of " + host_name(),
                       .prefix = options.prefix,
                       .deadline = options.deadline},
                      end);
}

}  // namespace shampoo
