// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace shampoo::launcher {

enum class FlagKind : std::uint8_t {
  value,   ///< takes one
  toggle,  ///< takes none
  notice   ///< prints something and ends the launcher; takes none
};

/// One flag of the command line.
struct Flag {
  std::string_view name;  ///< without dashes in front, with dashes inside
  char letter;            ///< of the short form; 0: none
  FlagKind kind;
  std::string_view value_name;
  std::string_view standard;  ///< the value of a call without it, for `value`
  std::string_view group;     ///< heading in the help
  std::string_view meaning;   ///< what the help says
  bool has_variable = true;   ///< whether a PET_ variable gives its default
};

/// All flags, in the order of the help.
std::span<const Flag> all_flags();

/// "PET_NPROC_PER_NODE".
std::string variable_of(const Flag& flag);

}  // namespace shampoo::launcher
