// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <ostream>
#include <span>
#include <stdexcept>
#include <string>

namespace shampoo::checkpoint::command {

/// The command line makes no sense. One line.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class Task : std::uint8_t { list, verify, describe, compare, clean, retain };

/// What `shampoo-checkpoint` is asked to do.
struct Options {
  Task task = Task::list;
  std::filesystem::path path;   ///< a root, or a checkpoint where the task takes one
  std::filesystem::path other;  ///< of compare
  std::string prefix;           ///< of tensors and values to look at
  bool values = false;          ///< describe: values too
  int last = 0;                 ///< retain: how many stay
  bool dry_run = false;         ///< clean, retain: only say what would go
  bool json = false;            ///< one JSON object in place of tables
};

/// `arguments` are without the program's name. Empty after help or the version, which go to `out`.
/// Throws UsageError.
std::optional<Options> read_options(std::span<const std::string> arguments, std::ostream& out);

}  // namespace shampoo::checkpoint::command
