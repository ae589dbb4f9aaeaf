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

/// An invalid command line; the message is one line.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class Task : std::uint8_t { list, verify, describe, clean, retain };

/// The command line of `shampoo-checkpoint`.
struct Options {
  Task task = Task::list;
  std::filesystem::path path;  ///< a directory, or a checkpoint where the task takes one
  std::string prefix;          ///< describe: of tensors
  bool values = false;         ///< describe: values too
  int last = 0;                ///< retain: how many stay
  bool dry_run = false;        ///< clean, retain: only say what would go
  bool json = false;           ///< one JSON object instead of tables
};

/// `arguments` are without the program's name. Empty after help or the version, which go to `out`.
/// Throws UsageError.
std::optional<Options> read_options(std::span<const std::string> arguments, std::ostream& out);

}  // namespace shampoo::checkpoint::command
