// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/storage/checkpoint_order.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "shampoo/checkpoint/format/manifest.h"
#include "shampoo/checkpoint/storage/attempts.h"
#include "shampoo/checkpoint/storage/checkpoint_folder.h"
#include "shampoo/checkpoint/storage/directory_operations.h"

namespace shampoo {

namespace checkpoint {
namespace {

/// N of step-N.tmp-<save> or step-N.old-<save>, by the function that makes the name.
template <typename Name>
std::optional<std::int64_t> step_of_name(const std::string& name, const Name& name_of) {
  const std::size_t dot = name.find('.');
  const std::size_t dash = name.find('-', dot == std::string::npos ? 0 : dot);
  if (dot == std::string::npos || dash == std::string::npos) return std::nullopt;
  const auto step = step_of(name.substr(0, dot));
  const std::string save = name.substr(dash + 1);
  if (!step || !is_save_id(save) || name_of(*step, save) != name) return std::nullopt;
  return step;
}

struct Folders {
  std::vector<std::filesystem::path> paths;  ///< sorted
  bool have_gone = false;                    ///< some of the entries, while they were listed
};

/// A directory behind a link that leads nowhere is not one that does not exist yet.
void require_no_dangling_link(const std::filesystem::path& directory) {
  for (auto path = whole_path(directory); path != path.parent_path(); path = path.parent_path()) {
    if (std::filesystem::exists(path)) return;
    if (is_there(path))
      throw std::system_error(std::make_error_code(std::errc::no_such_file_or_directory),
                              path.string() + ": a symbolic link that leads nowhere");
  }
}

Folders folders_in(const std::filesystem::path& directory) {
  Folders folders;
  std::error_code error;
  std::filesystem::directory_iterator entry(directory, error);
  if (error == std::errc::no_such_file_or_directory) {
    require_no_dangling_link(directory);
    return folders;
  }
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    std::error_code refused;
    const auto type = entry->symlink_status(refused).type();
    if (type == std::filesystem::file_type::directory) folders.paths.push_back(entry->path());
    if (type == std::filesystem::file_type::none && !is_gone(refused, entry->path()))
      throw std::system_error(refused, entry->path().string() + ": status");
    folders.have_gone |=
        type == std::filesystem::file_type::not_found || type == std::filesystem::file_type::none;
  }
  if (error) throw std::system_error(error, directory.string() + ": list");
  std::ranges::sort(folders.paths);
  return folders;
}

}  // namespace

NewestFirst::NewestFirst(const std::filesystem::path& directory) : directory_(directory) { list(); }

void NewestFirst::list() {
  left_.clear();
  broken_.clear();
  stale_.clear();
  const Folders folders = folders_in(directory_);
  have_gone_ = folders.have_gone;
  for (const std::filesystem::path& folder : folders.paths) {
    const std::string name = folder.filename().string();
    if (const auto step = step_of(name)) add(folder, *step);
    if (step_of_name(name, temporary_name)) stale_.push_back(folder);
    if (const auto step = step_of_name(name, replaced_name)) {
      if (is_there(directory_ / folder_name(*step)))
        stale_.push_back(folder);
      else
        add(folder, *step);
    }
  }
  std::ranges::sort(left_, {}, [](const Entry& entry) {
    return std::tuple(entry.head.sequence, entry.head.step, entry.folder);
  });
  if (!left_.empty()) largest_ = left_.back();
  // Others have renamed or removed them.
  have_gone_ = have_gone_ || !std::ranges::all_of(stale_, is_there);
}

void NewestFirst::add(const std::filesystem::path& folder, std::int64_t step) {
  const std::filesystem::path manifest = folder / manifest_name;
  const auto fault = fault_of(folder, [&] {
    Entry entry{folder, read_manifest_head(manifest)};
    if (entry.head.step != step)
      throw CheckpointError(manifest.string() + ": it is of step " +
                            std::to_string(entry.head.step) + ", not " + std::to_string(step));
    // More than saves count to: the rest of the manifest, which has a checksum, has to confirm it.
    if (entry.head.sequence > std::numeric_limits<std::int32_t>::max()) read_manifest(manifest);
    left_.push_back(std::move(entry));
  });
  if (fault) note(folder, *fault);
}

void NewestFirst::note(const std::filesystem::path& folder, const std::string& fault) {
  if (is_there(folder))
    broken_.push_back({folder, fault});
  else
    have_gone_ = true;
}

std::optional<CompleteCheckpoint> NewestFirst::next() {
  for (int listings = 1;; ++listings) {
    std::optional<CompleteCheckpoint> found = next_listed();
    has_found_ = has_found_ || found;
    if (found || has_found_ || !have_gone_ || listings == most_listings) return found;
    list();
  }
}

std::optional<CompleteCheckpoint> NewestFirst::next_listed() {
  while (!left_.empty()) {
    const Entry entry = std::move(left_.back());
    left_.pop_back();
    const auto fault = fault_of(entry.folder, [&] {
      const Manifest manifest = read_manifest(entry.folder / manifest_name);
      require_complete(entry.folder, manifest, entry.head.step);
    });
    if (!fault)
      return CompleteCheckpoint{entry.head.step, entry.folder, entry.head.sequence, entry.head.save,
                                entry.head.parent};
    note(entry.folder, *fault);
  }
  return std::nullopt;
}

std::int64_t NewestFirst::next_sequence() const {
  if (!largest_) return 1;
  if (largest_->head.sequence == std::numeric_limits<std::int64_t>::max())
    throw CheckpointError("save: no sequence is larger than that of " + largest_->folder.string());
  return largest_->head.sequence + 1;
}

std::vector<CompleteCheckpoint> checkpoints_to_prune(const std::filesystem::path& directory,
                                                     int count,
                                                     const std::vector<std::string>& saves) {
  if (count < 1) throw std::invalid_argument("prune_checkpoints: count must be at least 1");
  std::vector<CompleteCheckpoint> pruned;
  NewestFirst checkpoints(directory);
  int kept = 0;
  while (auto checkpoint = checkpoints.next())
    if (++kept > count && std::ranges::find(saves, checkpoint->save) == saves.end())
      pruned.push_back(std::move(*checkpoint));
  std::ranges::reverse(pruned);
  return pruned;
}

std::filesystem::path set_aside(const CompleteCheckpoint& checkpoint) {
  const auto aside = parent_of(checkpoint.path) / temporary_name(checkpoint.step, new_save_id());
  rename_entry(checkpoint.path, aside);
  return aside;
}

void remove_aside(const std::filesystem::path& aside) {
  sync_folder(parent_of(aside));
  remove_folder(aside);
}

}  // namespace checkpoint

CheckpointListing list_checkpoints(const std::filesystem::path& directory) {
  CheckpointListing listing;
  checkpoint::NewestFirst checkpoints(directory);
  while (auto complete = checkpoints.next()) listing.complete.push_back(std::move(*complete));
  std::ranges::reverse(listing.complete);
  listing.broken = std::move(checkpoints.broken());
  std::ranges::sort(listing.broken, {}, &BrokenCheckpoint::path);
  listing.stale = std::move(checkpoints.stale());
  return listing;
}

std::optional<std::filesystem::path> latest_checkpoint(const std::filesystem::path& directory) {
  const auto latest = checkpoint::NewestFirst(directory).next();
  if (!latest) return std::nullopt;
  return latest->path;
}

std::vector<std::filesystem::path> remove_stale_directories(
    const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> stale = std::move(checkpoint::NewestFirst(directory).stale());
  checkpoint::Attempts attempt;
  for (const std::filesystem::path& folder : stale)
    attempt([&] { checkpoint::remove_folder(folder); });
  attempt.finish();
  return stale;
}

std::vector<std::filesystem::path> prune_checkpoints(const std::filesystem::path& directory,
                                                     int count) {
  std::vector<std::filesystem::path> removed;
  checkpoint::Attempts attempt;
  for (const CompleteCheckpoint& old : checkpoint::checkpoints_to_prune(directory, count, {}))
    attempt([&] {
      checkpoint::remove_aside(checkpoint::set_aside(old));
      removed.push_back(old.path);
    });
  attempt.finish();
  return removed;
}

}  // namespace shampoo
