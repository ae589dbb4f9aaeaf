// SPDX-License-Identifier: Apache-2.0
#include "distributor/store/store_server.h"

#include "distributor/store/proof.h"
#include "distributor/store/server_loop.h"

namespace shampoo {

StoreServer::StoreServer(const StoreServerOptions& options) {
  store::check_secret(options.secret);
  loop_ = std::make_unique<store::ServerLoop>(options);
}

StoreServer::~StoreServer() = default;

std::uint16_t StoreServer::port() const { return loop_->port(); }

std::string StoreServer::own_address() const { return loop_->own_address(); }

std::size_t StoreServer::most_connections() const { return loop_->most_connections(); }

void StoreServer::remove_keys_except(std::string_view prefix) { loop_->remove_keys_except(prefix); }

StoreStatistics StoreServer::statistics() const { return loop_->statistics(); }

}  // namespace shampoo
