// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "distributor/transports/gloo/gloo.h"

namespace shampoo {

class GlooListener;

/// Binds the address at which the other ranks reach this one, so that an invalid one is reported
/// before any rank waits. Throws std::invalid_argument if `host` is not an address or name of this
/// host, or if there is no Gloo.
std::shared_ptr<GlooListener> listen_gloo(const std::string& host);

/// As the public overload, with a listener from listen_gloo(). `hosts`: name of each rank's host,
/// if known; empty: exchanged first.
std::unique_ptr<Communicator> gloo_communicator(const RankInfo& info, std::shared_ptr<Store> store,
                                                std::shared_ptr<GlooListener> listener,
                                                const GlooOptions& options,
                                                std::vector<std::string> hosts = {});

}  // namespace shampoo
