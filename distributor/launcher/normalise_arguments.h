// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace shampoo::launcher {

/// A command line taken apart as Python's argparse does.
struct NormalArguments {
  std::vector<std::string> flags;  ///< "--nproc-per-node", "2", "--module", ...: full names, apart
  std::optional<std::string> program;
  std::vector<std::string> arguments;  ///< all that follows the program, as it is
};

/// Understands --a-b and --a_b, --x v and --x=v, unique beginnings of names, -r 3, -r3, -mr 3, and
/// `--` before the program. `arguments` is without the launcher's own name. Throws UsageError.
NormalArguments normalise_arguments(std::span<const std::string> arguments);

}  // namespace shampoo::launcher
