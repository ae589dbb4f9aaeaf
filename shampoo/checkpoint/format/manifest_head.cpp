// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/format/manifest_head.h"

#include <algorithm>
#include <span>

#include "shampoo/checkpoint/format/manifest.h"
#include "shampoo/checkpoint/format/strict_json.h"
#include "shampoo/checkpoint/storage/file.h"
#include "shampoo/checkpoint_directory.h"

namespace shampoo::checkpoint {

ManifestHead read_manifest_head(const std::filesystem::path& path) {
  constexpr std::uint64_t longest = 4096;
  const File file = File::open(path);
  std::string line(std::min(longest, file.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span(line)));
  try {
    line.resize(std::min(line.size(), line.find('\n')));
    if (!line.ends_with(',')) refuse("its first line does not end with a comma");
    line.back() = '}';
    const Json json = parse_strictly(line);
    StrictObject object(json, "");
    if (const int schema = object.small_number("schema"); schema != manifest_schema)
      refuse("schema " + std::to_string(schema) + "; this version reads " +
             std::to_string(manifest_schema));
    return {object.text("save"), object.number("sequence"), object.text("parent"),
            object.number("step")};
  } catch (const CheckpointError& error) {
    throw CheckpointError(path.string() + ": " + error.what());
  }
}

}  // namespace shampoo::checkpoint
