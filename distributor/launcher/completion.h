// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "distributor/launcher/flag_values.h"

namespace shampoo::launcher {

/// A script that teaches a shell the launcher's flags. Throws UsageError for a shell other than
/// bash and zsh.
std::string completion_script(const FlagValue& shell);

}  // namespace shampoo::launcher
