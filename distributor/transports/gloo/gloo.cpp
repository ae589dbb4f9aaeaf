// SPDX-License-Identifier: Apache-2.0
#include "distributor/transports/gloo/gloo.h"

#include <netdb.h>

#include <stdexcept>

#include "distributor/system/host_name.h"
#include "distributor/system/sigpipe_guard.h"
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
  if (error != 0) throw std::runtime_error(gai_strerror(error));
  freeaddrinfo(found);
}

const ModuleEntry<GlooModule>& loaded() {
  static const auto entry = load_entry<GlooModule>("gloo", kernels::Binding::own);
  return entry;
}

std::shared_ptr<GlooListener> listen(const std::string& host) {
  const GlooModule& gloo = gloo_module();
  const SigpipeGuard no_sigpipe;  // inherited by the listener's thread
  try {
    check_name(host);
    return gloo.listen(host);
  } catch (const std::exception& error) {
    throw std::invalid_argument("host: must be an address or name of this host, got \"" + host +
                                "\": " + error.what());
  }
}

}  // namespace

const GlooModule& gloo_module() {
  if (!has_gloo())
    throw std::invalid_argument("Gloo: " + loaded().problem +
                                "; a build with the package libgloo-dev and -DSHAMPOO_GLOO=ON "
                                "makes and installs it");
  return *loaded().entry;
}

bool has_gloo() { return loaded().entry != nullptr; }

std::unique_ptr<Communicator> gloo_communicator(const RankInfo& info, std::shared_ptr<Store> store,
                                                const GlooOptions& options) {
  gloo_module();
  validate(info, store, options);
  const auto end = std::chrono::steady_clock::now() + options.deadline;
  auto listener = listen(options.host);
  auto locked = std::make_shared<SynchronizedStore>(std::move(store));
  return connect_gloo(info,
                      {.store = std::move(locked),
                       .store_server = options.store_server,
                       .listener = std::move(listener),
                       .host = options.host + " of " + host_name(),
                       .prefix = options.prefix,
                       .deadline = options.deadline},
                      end);
}

}  // namespace shampoo
