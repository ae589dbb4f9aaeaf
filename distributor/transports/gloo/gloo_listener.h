// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "distributor/transports/gloo/gloo.h"

namespace gloo::transport {
class Device;
}

namespace shampoo {

/// Binds the address at which the other ranks reach this one, so that an invalid one is reported
/// before any rank waits. Throws std::invalid_argument if `host` is not an address or name of this
/// host, or if this build has no Gloo.
std::shared_ptr<gloo::transport::Device> listen_gloo(const std::string& host);

/// As the public overload, with a device from listen_gloo().
std::unique_ptr<Communicator> gloo_communicator(const RankInfo& info, std::shared_ptr<Store> store,
                                                std::shared_ptr<gloo::transport::Device> device,
                                                const GlooOptions& options);

}  // namespace shampoo
