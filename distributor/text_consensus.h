// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "distributor/communicator.h"
#include "kernels/facets.h"

namespace shampoo {

/// Returns the texts of all ranks, in rank order, on every rank. Buffers are host memory, or
/// [backend] for a communicator in device memory. Collective; blocks; throws CommunicationError.
std::vector<std::string> gather_texts(Communicator& communicator, const std::string& own);
std::vector<std::string> gather_texts(kernels::Backend& backend, Communicator& communicator,
                                      const std::string& own);

/// Describes the first line in which some rank's text differs from that of rank 0, equally on all
/// ranks: "rank 1 has 'x', ranks 0 and 2 have 'y'"; empty if all texts are equal. Sends the text
/// of rank 0 and one line of every rank. Collective; blocks; throws CommunicationError.
std::string first_difference(kernels::Backend& backend, Communicator& communicator,
                             const std::string& own);

}  // namespace shampoo
