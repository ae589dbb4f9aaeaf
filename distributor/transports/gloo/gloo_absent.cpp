// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>

#include "distributor/transports/gloo/gloo_listener.h"

namespace shampoo {

namespace {

[[noreturn]] void refuse_gloo() {
  throw std::invalid_argument(
      "Gloo: not included in this build; install the package libgloo-dev and configure with "
      "-DSHAMPOO_GLOO=ON");
}

}  // namespace

bool has_gloo() { return false; }

std::shared_ptr<gloo::transport::Device> listen_gloo(const std::string&) { refuse_gloo(); }

std::unique_ptr<Communicator> gloo_communicator(const RankInfo&, std::shared_ptr<Store>,
                                                std::shared_ptr<gloo::transport::Device>,
                                                const GlooOptions&) {
  refuse_gloo();
}

std::unique_ptr<Communicator> gloo_communicator(const RankInfo&, std::shared_ptr<Store>,
                                                const GlooOptions&) {
  refuse_gloo();
}

}  // namespace shampoo
