// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/storage/checkpoint_directory.h"

#include <algorithm>
#include <charconv>
#include <exception>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "shampoo/checkpoint/format/manifest.h"
#include "shampoo/checkpoint/reader.h"
#include "shampoo/checkpoint/storage/directory_operations.h"
#include "shampoo/checkpoint/storage/uuid.h"

namespace shampoo::checkpoint {
namespace {

constexpr std::string_view prefix = "step-";
constexpr std::string_view infix = ".tmp-";

bool is_temporary(std::string_view name) {
  const std::size_t end = name.find(infix);
  return end != std::string_view::npos && step_of(name.substr(0, end)) &&
         is_save_id(name.substr(end + infix.size()));
}

std::vector<std::filesystem::path> folders_in(const std::filesystem::path& root) {
  std::vector<std::filesystem::path> folders;
  std::error_code error;
  std::filesystem::directory_iterator entry(root, error);
  if (error == std::errc::no_such_file_or_directory) return folders;
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    std::error_code gone;
    if (entry->symlink_status(gone).type() == std::filesystem::file_type::directory)
      folders.push_back(entry->path());
  }
  if (error) throw std::system_error(error, root.string() + ": list");
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

Listing list_folders(const std::filesystem::path& root) {
  Listing listing;
  for (const std::filesystem::path& folder : folders_in(root)) {
    const std::string name = folder.filename().string();
    if (is_temporary(name)) listing.leftovers.push_back(folder);
    const auto step = step_of(name);
    if (!step) continue;
    try {
      require_complete(folder, read_manifest(folder / manifest_name), *step);
      listing.complete.push_back({*step, folder});
    } catch (const std::exception& error) {
      listing.broken.push_back({folder, error.what()});
    }
  }
  std::sort(listing.complete.begin(), listing.complete.end(),
            [](const auto& a, const auto& b) { return a.step < b.step; });
  return listing;
}

std::optional<std::filesystem::path> latest_folder(const std::filesystem::path& root) {
  const Listing listing = list_folders(root);
  if (listing.complete.empty()) return std::nullopt;
  return listing.complete.back().path;
}

std::vector<std::filesystem::path> remove_leftovers(const std::filesystem::path& root) {
  const Listing listing = list_folders(root);
  for (const std::filesystem::path& folder : listing.leftovers) remove_folder(folder);
  return listing.leftovers;
}

std::vector<std::filesystem::path> retain_latest(const std::filesystem::path& root, int count) {
  if (count < 1) throw std::invalid_argument("retain_latest: count must be at least 1");
  std::vector<std::filesystem::path> removed;
  std::vector<CompleteFolder> complete = list_folders(root).complete;
  while (complete.size() > static_cast<std::size_t>(count)) {
    const auto& [step, folder] = complete.front();
    const std::filesystem::path aside = root / temporary_name(step, new_save_id());
    rename_entry(folder, aside);
    sync_folder(root);
    remove_folder(aside);
    removed.push_back(folder);
    complete.erase(complete.begin());
  }
  return removed;
}

}  // namespace shampoo::checkpoint
