// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <array>
#include <ctime>
#include <map>
#include <string>

#include "grouping/table.h"
#include "shampoo/checkpoint/command/paths.h"
#include "shampoo/checkpoint/command/run.h"
#include "shampoo/checkpoint/command/text.h"
#include "shampoo/checkpoint/format/manifest.h"
#include "shampoo/checkpoint/storage/checkpoint_folder.h"
#include "shampoo/checkpoint/storage/directory_operations.h"
#include "shampoo/checkpoint_directory.h"

namespace shampoo::checkpoint::command {
namespace {

/// When a file was written, UTC.
std::string time_of(const std::filesystem::path& file) {
  struct stat status {};
  std::tm parts{};
  if (::stat(file.c_str(), &status) != 0 || ::gmtime_r(&status.st_mtime, &parts) == nullptr)
    return "";
  std::array<char, 64> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

Json json_of(const CompleteCheckpoint& checkpoint) {
  const Manifest manifest = read_manifest(checkpoint.path / manifest_name);
  std::uint64_t bytes = 0;
  for (const ShardFile& file : manifest.files) bytes += file.bytes;
  return {{"step", checkpoint.step},
          {"sequence", checkpoint.sequence},
          {"save", checkpoint.save},
          {"parent", checkpoint.parent},
          {"ranks", manifest.ranks},
          {"parameters", manifest.parameters.size()},
          {"files", manifest.files.size()},
          {"bytes", bytes},
          {"saved", time_of(checkpoint.path / manifest_name)},
          {"folder", checkpoint.path.string()}};
}

Json json_of(const CheckpointListing& listing) {
  Json complete = Json::array(), broken = Json::array(), stale = Json::array();
  for (const CompleteCheckpoint& folder : listing.complete) {
    const auto fault = fault_of(folder.path, [&] { complete.push_back(json_of(folder)); });
    // Meanwhile another process may have pruned it.
    if (fault && is_there(folder.path)) throw CheckpointError(*fault);
  }
  for (const BrokenCheckpoint& folder : listing.broken)
    broken.push_back({{"folder", folder.path.string()}, {"fault", folder.fault}});
  for (const auto& folder : listing.stale) stale.push_back(folder.string());
  return {{"complete", complete}, {"broken", broken}, {"stale", stale}};
}

std::string text_of(const Json& listing, const std::filesystem::path& directory) {
  grouping::Rows rows{
      {"step", "from step", "ranks", "parameters", "files", "size", "saved", "folder"}};
  std::map<std::string, std::string> steps;
  for (const Json& row : listing.at("complete"))
    steps[row.at("save").get<std::string>()] = row.at("step").dump();
  for (const Json& row : listing.at("complete"))
    rows.push_back({row.at("step").dump(), steps[row.at("parent").get<std::string>()],
                    row.at("ranks").dump(), row.at("parameters").dump(), row.at("files").dump(),
                    grouping::bytes_text(row.at("bytes")), row.at("saved"),
                    printable(row.at("folder").get<std::string>())});
  std::string text = rows.size() > 1 ? grouping::table(rows, 2)
                                     : path_text(directory) + ": no complete checkpoint\n";
  for (const Json& broken : listing.at("broken"))
    text += "broken: " + printable(broken.at("folder").get<std::string>()) + "\n  " +
            printable(broken.at("fault").get<std::string>()) + "\n";
  for (const Json& stale : listing.at("stale"))
    text += "stale: " + printable(stale.get<std::string>()) + "\n";
  return text;
}

}  // namespace

void list(const Options& options, std::ostream& out) {
  const std::filesystem::path directory = directory_at(options.path);
  const Json listing = json_of(list_checkpoints(directory));
  out << (options.json ? to_text(listing) : text_of(listing, directory));
}

}  // namespace shampoo::checkpoint::command
