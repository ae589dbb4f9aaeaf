// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>

#include "shampoo/checkpoint/build_manifest.h"
#include "shampoo/state/optimizer_access.h"

namespace shampoo::checkpoint {

/// Runs what is collective in a save, where the optimizer's collectives may run: returns after it,
/// throws what it throws.
using Collectively = std::function<void(const std::function<void()>&)>;

/// take_snapshot(), where a fault of one rank is thrown by all. Collective.
Snapshot agreed_snapshot(Optimizer& optimizer, const Extras& extras, bool derived,
                         Contents contents);

/// Checks a request and agrees with the other ranks on it. Collective; throws the same on all
/// ranks.
SavePlace agree_on_save(Optimizer& optimizer, const Snapshot& snapshot,
                        const std::filesystem::path& root, const SaveOptions& options);

/// Writes the checkpoint, see save_folder(), and removes old ones. Collective, in that its
/// collectives must come about on all ranks.
std::filesystem::path run_save(Optimizer& optimizer, const Snapshot& snapshot,
                               const SavePlace& place, const SaveOptions& options,
                               const Collectively& collectively,
                               std::atomic<std::int64_t>& written);

}  // namespace shampoo::checkpoint
