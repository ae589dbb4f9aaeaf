// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/storage/checkpoint_folder.h"

#include <algorithm>
#include <charconv>
#include <exception>
#include <random>
#include <stdexcept>
#include <system_error>

#include "shampoo/checkpoint/format/manifest.h"
#include "shampoo/checkpoint/storage/directory_operations.h"
#include "shampoo/checkpoint/storage/file.h"
#include "shampoo/checkpoint_directory.h"

namespace shampoo {

namespace checkpoint {
namespace {

constexpr std::string_view prefix = "step-";
constexpr std::string_view infix = ".tmp-";

// x: any digit.
constexpr std::string_view form_of_ids = "xxxxxxxx-xxxx-4xxx-8xxx-xxxxxxxxxxxx";
constexpr std::string_view digits_of_ids = "0123456789abcdef";

bool is_temporary(std::string_view name) {
  const std::size_t end = name.find(infix);
  return end != std::string_view::npos && step_of(name.substr(0, end)) &&
         is_save_id(name.substr(end + infix.size()));
}

std::vector<std::filesystem::path> folders_in(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> folders;
  std::error_code error;
  std::filesystem::directory_iterator entry(directory, error);
  if (error == std::errc::no_such_file_or_directory) return folders;
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    std::error_code gone;
    if (entry->symlink_status(gone).type() == std::filesystem::file_type::directory)
      folders.push_back(entry->path());
  }
  if (error) throw std::system_error(error, directory.string() + ": list");
  std::sort(folders.begin(), folders.end());
  return folders;
}

}  // namespace

std::string folder_name(std::int64_t step) { return std::string(prefix) + std::to_string(step); }

std::optional<std::int64_t> step_of(const std::filesystem::path& folder) {
  const std::filesystem::path last = folder.has_filename() ? folder : folder.parent_path();
  const std::string name = last.filename().string();
  if (!name.starts_with(prefix)) return std::nullopt;
  const std::string_view digits = std::string_view(name).substr(prefix.size());
  std::int64_t step = -1;
  std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (step < 0 || folder_name(step) != name) return std::nullopt;
  return step;
}

std::string temporary_name(std::int64_t step, std::string_view save) {
  return folder_name(step) + std::string(infix) + std::string(save);
}

std::string new_save_id() {
  std::random_device device;
  std::uniform_int_distribution<std::size_t> digit(0, digits_of_ids.size() - 1);
  std::string id(form_of_ids);
  for (char& letter : id)
    if (letter == 'x') letter = digits_of_ids[digit(device)];
  return id;
}

bool is_save_id(std::string_view text) {
  return std::ranges::equal(text, form_of_ids, [](char letter, char form) {
    return form == 'x' ? digits_of_ids.find(letter) != std::string_view::npos : letter == form;
  });
}

void require_step(const std::filesystem::path& folder, const Manifest& manifest,
                  std::int64_t step) {
  if (manifest.step != step)
    throw CheckpointError(folder.string() + ": the manifest is of step " +
                          std::to_string(manifest.step) + ", not " + std::to_string(step));
}

void require_size(const std::filesystem::path& file, std::uint64_t bytes, std::uint64_t wanted) {
  if (bytes != wanted)
    throw CheckpointError(file.string() + ": " + std::to_string(bytes) +
                          " bytes, but the manifest says " + std::to_string(wanted));
}

void require_complete(const std::filesystem::path& folder, const Manifest& manifest,
                      std::int64_t step) {
  require_step(folder, manifest, step);
  for (const ShardFile& file : manifest.files)
    require_size(folder / file.name, File::open(folder / file.name).size(), file.bytes);
}

}  // namespace checkpoint

CheckpointListing list_checkpoints(const std::filesystem::path& directory) {
  CheckpointListing listing;
  for (const std::filesystem::path& folder : checkpoint::folders_in(directory)) {
    const std::string name = folder.filename().string();
    if (checkpoint::is_temporary(name)) listing.stale.push_back(folder);
    const auto step = checkpoint::step_of(name);
    if (!step) continue;
    try {
      require_complete(folder, checkpoint::read_manifest(folder / checkpoint::manifest_name),
                       *step);
      listing.complete.push_back({*step, folder});
    } catch (const std::exception& error) {
      listing.broken.push_back({folder, error.what()});
    }
  }
  std::ranges::sort(listing.complete, {}, &CompleteCheckpoint::step);
  return listing;
}

std::optional<std::filesystem::path> latest_checkpoint(const std::filesystem::path& directory) {
  const CheckpointListing listing = list_checkpoints(directory);
  if (listing.complete.empty()) return std::nullopt;
  return listing.complete.back().path;
}

std::vector<std::filesystem::path> remove_stale_directories(
    const std::filesystem::path& directory) {
  CheckpointListing listing = list_checkpoints(directory);
  for (const std::filesystem::path& folder : listing.stale) checkpoint::remove_folder(folder);
  return std::move(listing.stale);
}

std::vector<std::filesystem::path> prune_checkpoints(const std::filesystem::path& directory,
                                                     int count) {
  if (count < 1) throw std::invalid_argument("prune_checkpoints: count must be at least 1");
  std::vector<std::filesystem::path> removed;
  const std::vector<CompleteCheckpoint> complete = list_checkpoints(directory).complete;
  for (std::size_t i = 0; i + static_cast<std::size_t>(count) < complete.size(); ++i) {
    const auto& [step, folder] = complete[i];
    const auto aside = directory / checkpoint::temporary_name(step, checkpoint::new_save_id());
    checkpoint::rename_entry(folder, aside);
    checkpoint::sync_folder(directory);
    checkpoint::remove_folder(aside);
    removed.push_back(folder);
  }
  return removed;
}

}  // namespace shampoo
