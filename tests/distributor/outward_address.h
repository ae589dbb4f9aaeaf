// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "distributor/store/socket.h"
#include "distributor/system/network_address.h"

namespace shampoo::test {

/// The IPv4 address of this host on the way to others; "" if it has none but the loopback's.
inline std::string outward_address() {
  // 192.0.2.0/24 is for documentation. Nothing is sent.
  return numeric_text(source_towards(store::resolve("192.0.2.1", 1).front()));
}

}  // namespace shampoo::test
