// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/command/verify.h"

#include <algorithm>
#include <map>
#include <set>

#include "shampoo/checkpoint/command/places.h"
#include "shampoo/checkpoint/storage/checkpoint_directory.h"
#include "shampoo/checkpoint/verified_file.h"

namespace shampoo::checkpoint::command {
namespace {

namespace fs = std::filesystem;

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
    for (const ShardFile& listed : manifest_.files)
      attempt([&] {
        const auto opened = files_.emplace(listed.name, open_listed(result_.path, listed)).first;
        require_same_save(opened->second, manifest_);
      });
  }

  void check_tensors() {
    result_.tensors = manifest_.tensors.size();
    for (const SavedTensor& tensor : manifest_.tensors)
      for (const SavedPiece& piece : tensor.pieces) {
        const auto file = files_.find(piece.file);
        if (file == files_.end()) continue;
        attempt([&] {
          const TensorEntry entry = entry_of(file->second, tensor, piece);
          read_parts(file->second, entry, piece, [](auto, auto) {});
          result_.bytes += entry.end - entry.begin;
        });
      }
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
  std::map<std::string, SafetensorsFile, std::less<>> files_;
};

}  // namespace

bool Verification::sound() const {
  return !folders.empty() && std::all_of(folders.begin(), folders.end(),
                                         [](const auto& folder) { return folder.faults.empty(); });
}

Verification verify_path(const fs::path& path) {
  Verification verification;
  verification.path = path;
  if (is_checkpoint(path)) {
    verification.folders.push_back(FolderCheck(path).run());
    return verification;
  }
  const Listing listing = list_folders(path);
  std::vector<fs::path> folders;
  for (const CompleteFolder& folder : listing.complete) folders.push_back(folder.path);
  for (const BrokenFolder& folder : listing.broken) folders.push_back(folder.path);
  for (const fs::path& folder : folders) verification.folders.push_back(FolderCheck(folder).run());
  verification.leftovers = listing.leftovers;
  return verification;
}

std::string text_of(const Verification& verification) {
  std::string text;
  for (const VerifiedFolder& folder : verification.folders) {
    text += path_text(folder.path) + ": ";
    text += folder.faults.empty() ? "sound" : "BROKEN, " + counted(folder.faults.size(), "fault");
    text += "; " + counted(folder.tensors, "tensor") + ", " + counted(folder.files, "file") +
            ", checksums of " + size_text(folder.bytes) + " right\n";
    for (const std::string& fault : folder.faults) text += "  " + printable(fault) + "\n";
    for (const std::string& name : folder.unknown)
      text += "  (not in the manifest: " + printable(name) + ")\n";
  }
  for (const fs::path& leftover : verification.leftovers)
    text += path_text(leftover) + ": left behind, not looked at\n";
  if (verification.folders.empty()) text += path_text(verification.path) + ": no checkpoint\n";
  return text;
}

Json json_of(const Verification& verification) {
  Json folders = Json::array(), leftovers = Json::array();
  for (const VerifiedFolder& folder : verification.folders)
    folders.push_back({{"folder", folder.path.string()},
                       {"sound", folder.faults.empty()},
                       {"tensors", folder.tensors},
                       {"files", folder.files},
                       {"verified_bytes", folder.bytes},
                       {"faults", folder.faults},
                       {"not_in_manifest", folder.unknown}});
  for (const fs::path& leftover : verification.leftovers) leftovers.push_back(leftover.string());
  return {{"sound", verification.sound()}, {"checkpoints", folders}, {"left_behind", leftovers}};
}

}  // namespace shampoo::checkpoint::command
