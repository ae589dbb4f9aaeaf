// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "distributor/launcher/environment.h"

namespace shampoo::launcher {

/// Processors that are online.
int count_processors();

/// GPUs that workers would see: entries of CUDA_VISIBLE_DEVICES up to the first -1, or where that
/// is not set, files nvidia0, nvidia1, ... in `devices`.
int count_gpus(const Environment& environment, const std::filesystem::path& devices = "/dev");

}  // namespace shampoo::launcher
