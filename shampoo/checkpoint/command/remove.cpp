// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <vector>

#include "shampoo/checkpoint/command/paths.h"
#include "shampoo/checkpoint/command/run.h"
#include "shampoo/checkpoint/command/text.h"
#include "shampoo/checkpoint/storage/checkpoint_order.h"

namespace shampoo::checkpoint::command {
namespace {

using Folders = std::vector<std::filesystem::path>;

void print(const Folders& folders, const Options& options, std::ostream& out) {
  const char* what = options.dry_run ? "would remove" : "removed";
  if (options.json) {
    Json list = Json::array();
    for (const auto& folder : folders) list.push_back(folder.string());
    out << to_text({{options.dry_run ? "would_remove" : "removed", list}});
    return;
  }
  for (const auto& folder : folders) out << what << " " << path_text(folder) << "\n";
  if (folders.empty()) out << path_text(options.path) << ": nothing to remove\n";
}

Folders beyond_last(const std::filesystem::path& directory, int last) {
  Folders folders;
  for (const CompleteCheckpoint& checkpoint : checkpoints_to_prune(directory, last, {}))
    folders.push_back(checkpoint.path);
  return folders;
}

}  // namespace

void clean(const Options& options, std::ostream& out) {
  const std::filesystem::path directory = directory_at(options.path);
  print(options.dry_run ? list_checkpoints(directory).stale : remove_stale_directories(directory),
        options, out);
}

void retain(const Options& options, std::ostream& out) {
  const std::filesystem::path directory = directory_at(options.path);
  print(options.dry_run ? beyond_last(directory, options.last)
                        : prune_checkpoints(directory, options.last),
        options, out);
}

}  // namespace shampoo::checkpoint::command
