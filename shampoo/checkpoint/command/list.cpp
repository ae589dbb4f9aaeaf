// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/command/list.h"

#include <sys/stat.h>

#include <array>
#include <ctime>
#include <string>
#include <vector>

#include "shampoo/checkpoint/command/places.h"
#include "shampoo/checkpoint/command/table.h"
#include "shampoo/checkpoint/command/text.h"
#include "shampoo/checkpoint/format/manifest.h"
#include "shampoo/checkpoint/storage/checkpoint_directory.h"

namespace shampoo::checkpoint::command {
namespace {

/// What a line of the table says.
struct Line {
  std::int64_t step = 0;
  int world = 0;
  std::uint64_t tensors = 0, files = 0, bytes = 0;
  std::string saved;  ///< when, UTC
  std::string folder;
};

std::string time_of(const std::filesystem::path& file) {
  struct stat status {};
  std::tm parts{};
  if (::stat(file.c_str(), &status) != 0 || ::gmtime_r(&status.st_mtime, &parts) == nullptr)
    return "";
  std::array<char, 64> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

Line line_of(const CompleteFolder& folder) {
  const Manifest manifest = read_manifest(folder.path / manifest_name);
  Line line;
  line.step = folder.step;
  line.world = manifest.world;
  line.tensors = manifest.tensors.size();
  line.files = manifest.files.size();
  for (const ShardFile& file : manifest.files) line.bytes += file.bytes;
  line.saved = time_of(folder.path / manifest_name);
  line.folder = folder.path.string();
  return line;
}

std::string text_of(const std::vector<Line>& lines, const Listing& listing,
                    const std::filesystem::path& root) {
  std::string text;
  if (lines.empty()) text = path_text(root) + ": no complete checkpoint\n";
  Table table({{"step", Align::right},
               {"ranks", Align::right},
               {"tensors", Align::right},
               {"files", Align::right},
               {"size", Align::right},
               {"saved"},
               {"folder"}});
  for (const Line& line : lines)
    table.add({std::to_string(line.step), std::to_string(line.world), std::to_string(line.tensors),
               std::to_string(line.files), size_text(line.bytes), line.saved,
               printable(line.folder)});
  if (!lines.empty()) text += table.text();
  for (const BrokenFolder& broken : listing.broken)
    text += "broken: " + path_text(broken.path) + "\n  " + printable(broken.fault) + "\n";
  for (const auto& leftover : listing.leftovers)
    text += "left behind: " + path_text(leftover) + "\n";
  return text;
}

Json json_of(const std::vector<Line>& lines, const Listing& listing) {
  Json complete = Json::array(), broken = Json::array(), leftovers = Json::array();
  for (const Line& line : lines)
    complete.push_back({{"step", line.step},
                        {"world", line.world},
                        {"tensors", line.tensors},
                        {"files", line.files},
                        {"bytes", line.bytes},
                        {"saved", line.saved},
                        {"folder", line.folder}});
  for (const BrokenFolder& folder : listing.broken)
    broken.push_back({{"folder", folder.path.string()}, {"fault", folder.fault}});
  for (const auto& folder : listing.leftovers) leftovers.push_back(folder.string());
  return {{"complete", complete}, {"broken", broken}, {"left_behind", leftovers}};
}

}  // namespace

void list(const Options& options, std::ostream& out) {
  const std::filesystem::path root = root_at(options.path);
  const Listing listing = list_folders(root);
  std::vector<Line> lines;
  for (const CompleteFolder& folder : listing.complete) lines.push_back(line_of(folder));
  out << (options.json ? to_text(json_of(lines, listing)) : text_of(lines, listing, root));
}

}  // namespace shampoo::checkpoint::command
