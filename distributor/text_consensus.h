// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "distributor/communicator.h"

namespace shampoo {

/// Every rank's text, in their order, on all ranks. Collective; throws CommunicationError.
std::vector<std::string> gather_texts(Backend& backend, Communicator& communicator,
                                      const std::string& own);

/// The first line in which a rank's text differs from that of rank 0, as a sentence that is the
/// same on all ranks: "rank 1 has 'x', ranks 0 and 2 have 'y'"; empty where all texts are equal.
/// Collective; throws CommunicationError. Sends rank 0's text and one line of every rank.
std::string first_difference(Backend& backend, Communicator& communicator, const std::string& own);

}  // namespace shampoo
