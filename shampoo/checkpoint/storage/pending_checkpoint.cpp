// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/storage/pending_checkpoint.h"

#include <stdexcept>
#include <system_error>
#include <utility>

#include "shampoo/checkpoint/storage/checkpoint_folder.h"
#include "shampoo/checkpoint/storage/directory_operations.h"
#include "shampoo/checkpoint/storage/file.h"

namespace shampoo::checkpoint {

bool is_replaceable(const std::filesystem::path& directory, std::int64_t step, Existing existing) {
  const std::filesystem::path folder = directory / folder_name(step);
  const std::filesystem::file_status status = std::filesystem::symlink_status(folder);
  if (!std::filesystem::exists(status)) return false;
  if (!std::filesystem::is_directory(status))
    throw std::invalid_argument(
        "save: " + folder.string() + " exists, and is " +
        (std::filesystem::is_symlink(status) ? "a symbolic link" : "no folder"));
  const auto examine = [&] {
    require_complete(folder, read_manifest(folder / manifest_name), step);
  };
  if (existing == Existing::replace || fault_of(folder, examine)) return true;
  throw std::invalid_argument("save: " + folder.string() +
                              " exists; SaveOptions::replace would replace it");
}

void require_step_number(std::int64_t step) {
  if (step < 0)
    throw std::invalid_argument("save: step: must be >= 0, got " + std::to_string(step));
}

PendingCheckpoint::PendingCheckpoint(std::filesystem::path directory, std::int64_t step,
                                     std::string save, Existing existing)
    : directory_(std::move(directory)),
      temporary_(directory_ / temporary_name(step, save)),
      folder_(directory_ / folder_name(step)),
      step_(step),
      save_(std::move(save)),
      existing_(existing) {
  require_step_number(step_);
  if (!is_save_id(save_)) throw std::invalid_argument("save: its id must be one of new_save_id()");
}

void PendingCheckpoint::create() {
  make_folders(directory_);
  is_replaceable(directory_, step_, existing_);
  made_ = temporary_;  // also if the call is applied and answered with an error
  make_unique_folder(temporary_);
}

void PendingCheckpoint::commit(const Manifest& manifest) {
  if (manifest.save != save_) throw std::invalid_argument("save: the manifest is of another save");
  const std::string text = to_json(manifest);
  require_complete(temporary_, manifest, step_);
  write_file(temporary_ / manifest_name, text);
  sync_folder(temporary_);
  put_in_place();
  sync_folder(directory_);
}

void PendingCheckpoint::put_in_place() {
  if (!is_replaceable(directory_, step_, existing_)) {
    rename_to_new(temporary_, folder_);
  } else if (exchange_entries(temporary_, folder_)) {
    replaced_ = temporary_;
  } else {
    const std::filesystem::path aside = directory_ / replaced_name(step_, save_);
    rename_entry(folder_, aside);
    replaced_ = aside;
    rename_to_new(temporary_, folder_);
  }
  made_ = folder_;
}

/// Gives the folder its temporary name again, and the old step-N its own. False if that failed.
bool PendingCheckpoint::take_back() noexcept {
  try {
    if (!replaced_.empty() && replaced_ == temporary_) return exchange_entries(temporary_, folder_);
    if (made_ == folder_) rename_entry(folder_, temporary_);
    if (!replaced_.empty()) rename_to_new(replaced_, folder_);
    return true;
  } catch (...) {
    return false;
  }
}

bool PendingCheckpoint::discard() noexcept {
  if (made_.empty()) return true;
  std::error_code error;
  const bool is_taken_back = take_back();
  if (is_taken_back) std::filesystem::remove_all(temporary_, error);
  made_.clear();
  return is_taken_back && !error;
}

void PendingCheckpoint::remove_replaced() {
  if (!replaced_.empty()) remove_folder(replaced_);
  replaced_.clear();
}

}  // namespace shampoo::checkpoint
