// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/format/manifest_head.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "shampoo/checkpoint/storage/file.h"
#include "shampoo/checkpoint_directory.h"

namespace shampoo::checkpoint {

ManifestHead read_manifest_head(const std::filesystem::path& path) {
  constexpr std::uint64_t longest = 4096;
  const File file = File::open(path);
  std::string line(std::min(longest, file.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span(line)));
  line.resize(std::min(line.size(), line.find('\n')));
  const auto fail = [&](const std::string& fault) {
    throw CheckpointError(path.string() + ": manifest: its first line " + fault);
  };
  if (!line.ends_with(',')) fail("is missing or cut off");
  line.back() = '}';
  ManifestHead head;
  try {
    const auto json = nlohmann::json::parse(line);
    json.at("save").get_to(head.save);
    if (json.contains("sequence")) json.at("sequence").get_to(head.sequence);
    if (json.contains("parent")) json.at("parent").get_to(head.parent);
    json.at("step").get_to(head.step);
  } catch (const nlohmann::json::exception& error) {
    fail(std::string("is no JSON of a checkpoint: ") + error.what());
  }
  return head;
}

}  // namespace shampoo::checkpoint
