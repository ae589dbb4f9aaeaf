// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>

#include "distributor/gloo.h"

namespace shampoo {

bool has_gloo() { return false; }

std::unique_ptr<Communicator> gloo_communicator(const Standing&, std::shared_ptr<Store>,
                                                const GlooOptions&) {
  throw std::invalid_argument(
      "Gloo: this build has none; install the package libgloo-dev and configure with "
      "-DSHAMPOO_GLOO=ON");
}

}  // namespace shampoo
