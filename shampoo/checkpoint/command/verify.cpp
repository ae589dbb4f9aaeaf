// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "grouping/table.h"
#include "shampoo/checkpoint/command/paths.h"
#include "shampoo/checkpoint/command/run.h"
#include "shampoo/checkpoint/command/text.h"
#include "shampoo/checkpoint/reader.h"
#include "shampoo/checkpoint/storage/checkpoint_folder.h"
#include "shampoo/checkpoint_directory.h"

namespace shampoo::checkpoint::command {
namespace {

namespace fs = std::filesystem;

/// What was found in one checkpoint folder.
struct VerifiedFolder {
  fs::path path;
  std::uint64_t tensors = 0, files = 0;
  std::uint64_t bytes = 0;           ///< of tensors whose checksums are right
  std::vector<std::string> faults;   ///< each names file, tensor, offset as far as there are any
  std::vector<std::string> unknown;  ///< entries that the manifest does not list
};

/// Checks one folder, a part after the other, each as far as it can be.
class FolderCheck {
 public:
  explicit FolderCheck(const fs::path& path) { result_.path = path; }

  VerifiedFolder run() {
    bool readable = false;
    attempt([&] {
      manifest_ = read_manifest(result_.path / manifest_name);
      readable = true;
    });
    if (readable) {
      check_name();
      open_files();
      check_tensors();
    } else {
      check_unlisted();
    }
    attempt([&] { find_unknown(); });
    return std::move(result_);
  }

 private:
  /// What fails, a full memory too, is a fault of what was looked at.
  template <typename Action>
  void attempt(const Action& action) {
    try {
      action();
    } catch (const std::exception& error) {
      result_.faults.emplace_back(error.what());
    }
  }

  void check_name() {
    const fs::path name = name_at(result_.path);
    if (is_step_name(name) && name != folder_name(manifest_.step))
      result_.faults.push_back(result_.path.string() + ": the manifest is of step " +
                               std::to_string(manifest_.step));
  }

  void open_files() {
    result_.files = manifest_.files.size();
    files_.resize(manifest_.files.size());
    for (std::size_t f = 0; f < files_.size(); ++f)
      attempt([&] { files_[f].emplace(result_.path, manifest_, manifest_.files[f]); });
  }

  void check_tensors() {
    std::vector<std::set<std::size_t>> found(files_.size());
    for_each_shard(manifest_, [&](const TensorShard& shard) {
      ++result_.tensors;
      const auto& file = files_[shard.file];
      if (!file) return;
      attempt([&] {
        const std::size_t index = file->index_of(shard);
        if (!found[shard.file].insert(index).second)
          throw CheckpointError(file->file().path().string() + ": tensor " + in_quotes(shard.key) +
                                " is in the manifest twice");
        file->read_parts(shard, nullptr, Checksums::compare);
        result_.bytes += bytes_of(shard.dtype, shard.shape).value_or(0);
      });
    });
    for (std::size_t f = 0; f < files_.size(); ++f)
      for (std::size_t t = 0; files_[f] && t < files_[f]->tensors(); ++t)
        if (!found[f].contains(t)) result_.faults.push_back(files_[f]->unlisted(t));
  }

  /// Without a manifest headers can be checked all the same.
  void check_unlisted() {
    std::set<fs::path> paths;
    attempt([&] {
      for (const auto& entry : fs::directory_iterator(result_.path))
        if (entry.path().extension() == ".safetensors") paths.insert(entry.path());
    });
    for (const fs::path& path : paths) attempt([&] { SafetensorsFile file(path); });
    result_.files = paths.size();
  }

  void find_unknown() {
    std::set<std::string> known{std::string(manifest_name)};
    for (const ShardFile& file : manifest_.files) known.insert(file.name);
    for (const auto& entry : fs::directory_iterator(result_.path)) {
      const std::string name = entry.path().filename().string();
      const bool shard_without_manifest =
          manifest_.files.empty() && entry.path().extension() == ".safetensors";
      if (!known.contains(name) && !shard_without_manifest) result_.unknown.push_back(name);
    }
    std::sort(result_.unknown.begin(), result_.unknown.end());
  }

  VerifiedFolder result_;
  Manifest manifest_;
  std::vector<std::optional<Shard>> files_;  ///< those that could be opened
};

struct Verification {
  fs::path path;
  std::vector<VerifiedFolder> folders;
  std::vector<fs::path> stale;

  /// There was something, and no fault in it.
  bool sound() const {
    return !folders.empty() && std::ranges::all_of(folders, [](const VerifiedFolder& folder) {
      return folder.faults.empty();
    });
  }
};

Verification verify_path(const fs::path& path) {
  Verification verification;
  verification.path = path;
  if (is_checkpoint(path)) {
    verification.folders.push_back(FolderCheck(path).run());
    return verification;
  }
  CheckpointListing listing = list_checkpoints(path);
  for (const CompleteCheckpoint& folder : listing.complete)
    verification.folders.push_back(FolderCheck(folder.path).run());
  for (const BrokenCheckpoint& folder : listing.broken)
    verification.folders.push_back(FolderCheck(folder.path).run());
  verification.stale = std::move(listing.stale);
  return verification;
}

std::string text_of(const Verification& verification) {
  std::string text;
  for (const VerifiedFolder& folder : verification.folders) {
    text += path_text(folder.path) + ": ";
    text += folder.faults.empty() ? "sound" : "BROKEN, " + counted(folder.faults.size(), "fault");
    text += "; " + counted(folder.tensors, "tensor") + ", " + counted(folder.files, "file") +
            ", checksums of " + grouping::bytes_text(static_cast<std::int64_t>(folder.bytes)) +
            " right\n";
    for (const std::string& fault : folder.faults) text += "  " + printable(fault) + "\n";
    for (const std::string& name : folder.unknown)
      text += "  (not in the manifest: " + printable(name) + ")\n";
  }
  for (const fs::path& folder : verification.stale)
    text += path_text(folder) + ": stale, not checked\n";
  if (verification.folders.empty()) text += path_text(verification.path) + ": no checkpoint\n";
  return text;
}

Json json_of(const Verification& verification) {
  Json folders = Json::array(), stale = Json::array();
  for (const VerifiedFolder& folder : verification.folders)
    folders.push_back({{"folder", folder.path.string()},
                       {"sound", folder.faults.empty()},
                       {"tensors", folder.tensors},
                       {"files", folder.files},
                       {"verified_bytes", folder.bytes},
                       {"faults", folder.faults},
                       {"not_in_manifest", folder.unknown}});
  for (const fs::path& folder : verification.stale) stale.push_back(folder.string());
  return {{"sound", verification.sound()}, {"checkpoints", folders}, {"stale", stale}};
}

}  // namespace

int verify(const Options& options, std::ostream& out) {
  const Verification verification = verify_path(options.path);
  out << (options.json ? to_text(json_of(verification)) : text_of(verification));
  return verification.sound() ? fine : found_something;
}

}  // namespace shampoo::checkpoint::command
