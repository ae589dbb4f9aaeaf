// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/format/manifest_head.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "shampoo/checkpoint/format/json_fields.h"
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
    const auto json = Json::parse(std::string_view(line));
    const JsonFields fields(json, "");
    head.save = fields.text("save");
    if (fields.has("sequence")) head.sequence = fields.number("sequence");
    if (fields.has("parent")) head.parent = fields.text("parent");
    head.step = fields.number("step");
  } catch (const nlohmann::json::exception& error) {
    fail(std::string("is no JSON of a checkpoint: ") + error.what());
  } catch (const CheckpointError& error) {
    throw CheckpointError(path.string() + ": " + error.what());
  }
  return head;
}

}  // namespace shampoo::checkpoint
