// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "grouping/table.h"
#include "shampoo/checkpoint/command/paths.h"
#include "shampoo/checkpoint/command/run.h"
#include "shampoo/checkpoint/command/text.h"
#include "shampoo/checkpoint/reader.h"
#include "shampoo/checkpoint/storage/directory_operations.h"
#include "shampoo/checkpoint_directory.h"

namespace shampoo::checkpoint::command {
namespace {

namespace fs = std::filesystem;

/// What was found in one checkpoint folder.
struct VerifiedFolder {
  fs::path path;
  std::uint64_t tensors = 0, files = 0;
  std::uint64_t bytes = 0;                ///< of tensors whose checksums are right
  std::vector<std::string> faults = {};   ///< each names file, tensor, offset where there are any
  std::vector<std::string> unknown = {};  ///< entries that the manifest does not list
};

/// Checks one folder, a part after the other, each as far as it can be.
VerifiedFolder verify_folder(const fs::path& path) {
  VerifiedFolder result{.path = path};
  // What fails, a full memory too, is a fault of what was looked at.
  const auto attempt = [&](const auto& action) {
    try {
      action();
    } catch (const std::exception& error) {
      result.faults.emplace_back(error.what());
    }
  };
  std::set<std::string> known{std::string(manifest_name)};
  attempt([&] {
    const Reader reader(whole_path(path));
    for (const ShardFile& file : reader.manifest().files) known.insert(file.name);
    result.files = reader.manifest().files.size();
    for (std::size_t file = 0; file < result.files; ++file) {
      std::shared_ptr<const Shard> shard;
      attempt([&] { shard = reader.shard(file); });
      reader.for_each_tensor(file, [&](const TensorShard& tensor) {
        ++result.tensors;
        if (!shard) return;
        attempt([&] {
          shard->read_parts(tensor, nullptr, Checksums::compare);
          result.bytes += bytes_of(tensor.dtype, tensor.shape).value_or(0);
        });
      });
    }
  });
  attempt([&] {
    for (const auto& entry : fs::directory_iterator(path))
      if (const std::string name = entry.path().filename().string(); !known.contains(name))
        result.unknown.push_back(name);
  });
  std::ranges::sort(result.unknown);
  return result;
}

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
    verification.folders.push_back(verify_folder(path));
    return verification;
  }
  CheckpointListing listing = list_checkpoints(path);
  const auto add = [&](const fs::path& folder) {
    VerifiedFolder verified = verify_folder(folder);
    // A trainer may have pruned it meanwhile.
    if (is_there(folder)) verification.folders.push_back(std::move(verified));
  };
  for (const CompleteCheckpoint& folder : listing.complete) add(folder.path);
  for (const BrokenCheckpoint& folder : listing.broken) add(folder.path);
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
