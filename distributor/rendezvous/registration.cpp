// SPDX-License-Identifier: Apache-2.0
#include "distributor/rendezvous/registration.h"

#include <algorithm>

#include "distributor/rendezvous/coordinator.h"
#include "distributor/rendezvous/member.h"

namespace shampoo::joining {

std::string agree(Store& store, Hello self, const AgreementOptions& options) {
  self.nonce = random_id();
  if (self.rank == 0) return Coordinator(store, self, options).run();
  return Member(store, self, options).run();
}

std::chrono::milliseconds farewell_of(std::chrono::milliseconds deadline) {
  using std::chrono::milliseconds;
  return std::clamp(deadline / 4, milliseconds(1), milliseconds(5'000));
}

}  // namespace shampoo::joining
