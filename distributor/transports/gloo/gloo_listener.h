// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "distributor/transports/gloo/gloo.h"

namespace gloo::transport {
class Device;
}

namespace shampoo {

/// The address at which the other ranks will reach this one: what is wrong with it shows before
/// anybody waits. Throws std::invalid_argument for a `host` that is no address or name of this one,
/// and where this build has no Gloo.
std::shared_ptr<gloo::transport::Device> listen_gloo(const std::string& host);

/// As gloo_communicator() without a device, which is that of options.host. `hosts`: name of the
/// host of each rank, if known; empty: exchanged first.
std::unique_ptr<Communicator> gloo_communicator(const RankInfo& standing,
                                                std::shared_ptr<Store> store,
                                                std::shared_ptr<gloo::transport::Device> device,
                                                const GlooOptions& options,
                                                std::vector<std::string> hosts = {});

}  // namespace shampoo
