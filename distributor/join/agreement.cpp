// SPDX-License-Identifier: Apache-2.0
#include "distributor/join/agreement.h"

#include "distributor/join/coordinator.h"
#include "distributor/join/member.h"

namespace shampoo::joining {

std::string agree(Store& store, Hello self, const AgreementOptions& options) {
  self.nonce = random_id();
  AgreementKeys keys{"/shampoo/join/" + options.job + "/"};
  if (self.rank == 0) return Coordinator(store, std::move(keys), self, options.deadline).run();
  return Member(store, std::move(keys), self, options.deadline).run();
}

}  // namespace shampoo::joining
