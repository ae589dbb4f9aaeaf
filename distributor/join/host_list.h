// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace shampoo::joining {

/// The hosts of a list as SLURM writes it, in its order: "node[001-004,7],gpu-[1-2]x,login".
/// Leading zeros fix the width of a number; of several brackets in one name the last varies
/// fastest. Throws std::invalid_argument, quoting the place, for a list that is malformed or has
/// more than `most` hosts.
std::vector<std::string> expand_host_list(std::string_view list, std::size_t most = 65'536);

/// The first of them, of a list of any length. Throws std::invalid_argument for a malformed list.
std::string first_host(std::string_view list);

}  // namespace shampoo::joining
