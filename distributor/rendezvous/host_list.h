// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace shampoo::rendezvous {

/// The first host of a list as SLURM writes it, of any length: "node001" of
/// "node[001-004,7],gpu-[1-2]x,login". Throws std::invalid_argument, quoting the place, for a list
/// that is malformed anywhere.
std::string first_host(std::string_view list);

}  // namespace shampoo::rendezvous
