// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>

#include "shampoo/shampoo.h"

namespace examples {

/// By its option, what the values of a run follow from, for its checkpoints. How many ranks and
/// threads compute them, and for how long, may change.
using Identity = std::map<std::string, shampoo::UserValue>;

/// The shortest text that is this number.
template <typename Number>
std::string text_of(Number number) {
  char text[32];
  return {text, std::to_chars(text, std::end(text), number).ptr};
}

template <typename Number>
std::string text_of(const std::optional<Number>& number) {
  return number ? text_of(*number) : "unset";
}

/// Throws std::invalid_argument with the first option that differs, and both values of it.
inline void require_same(const Identity& saved, const Identity& asked,
                         const std::filesystem::path& folder) {
  for (const auto& [option, value] : asked)
    if (const auto other = saved.find(option); other != saved.end() && other->second != value)
      throw std::invalid_argument(
          "--checkpoint: " + folder.string() + " has checkpoints of a run with " + option + " " +
          std::get<std::string>(other->second) + ", not " + std::get<std::string>(value));
}

/// shampoo::resume() of a run whose user state has this identity. Throws std::invalid_argument for
/// a checkpoint of another run.
inline std::optional<shampoo::LoadedCheckpoint> resume(shampoo::Optimizer& optimizer,
                                                       const std::filesystem::path& folder,
                                                       shampoo::UserState& user,
                                                       const Identity& identity) {
  try {
    auto loaded = shampoo::resume(optimizer, folder, user);
    if (loaded) require_same(user.values, identity, folder);
    return loaded;
  } catch (const std::invalid_argument&) {
    // An option says more than the tensor whose shape follows from it.
    require_same(shampoo::read_state_dict(folder).user_values(), identity, folder);
    throw;
  }
}

}  // namespace examples
