// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/storage/pending_checkpoint.h"

#include <stdexcept>
#include <system_error>
#include <utility>

#include "shampoo/checkpoint/storage/checkpoint_folder.h"
#include "shampoo/checkpoint/storage/directory_operations.h"
#include "shampoo/checkpoint/storage/file.h"

namespace shampoo::checkpoint {

PendingCheckpoint::PendingCheckpoint(std::filesystem::path directory, std::int64_t step,
                                     std::string save)
    : directory_(std::move(directory)),
      temporary_(directory_ / temporary_name(step, save)),
      folder_(directory_ / folder_name(step)),
      step_(step),
      save_(std::move(save)) {
  if (step_ < 0)
    throw std::invalid_argument("save: step: must be >= 0, got " + std::to_string(step_));
  if (!is_save_id(save_)) throw std::invalid_argument("save: its id must be one of new_save_id()");
}

void PendingCheckpoint::create() {
  make_folders(directory_);
  require_new();
  make_folder(temporary_);
  made_ = temporary_;
}

void PendingCheckpoint::require_new() const {
  if (std::filesystem::exists(std::filesystem::symlink_status(folder_)))
    throw std::invalid_argument("save: " + folder_.string() +
                                " exists; checkpoints are never overwritten");
}

void PendingCheckpoint::commit(const Manifest& manifest) {
  if (manifest.save != save_) throw std::invalid_argument("save: the manifest is of another save");
  const std::string text = to_json(manifest);
  require_complete(temporary_, manifest, step_);

  const std::filesystem::path name = temporary_ / manifest_name;
  const std::filesystem::path unnamed = name.string() + ".tmp";
  write_file(unnamed, text);
  rename_entry(unnamed, name);
  sync_folder(temporary_);
  require_new();
  rename_entry(temporary_, folder_);
  made_ = folder_;
  sync_folder(directory_);
}

void PendingCheckpoint::discard() noexcept {
  if (made_.empty()) return;
  std::error_code nothing;
  if (made_ == folder_) std::filesystem::rename(folder_, temporary_, nothing);
  std::filesystem::remove_all(temporary_, nothing);
}

}  // namespace shampoo::checkpoint
