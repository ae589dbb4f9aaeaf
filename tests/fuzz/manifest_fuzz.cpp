// SPDX-License-Identifier: Apache-2.0
// The text of a manifest. An input that begins with 'r' is the text as it is; any other gets the
// checksum at its end, without which nothing else would be looked at.
#include <string>

#include "shampoo/checkpoint/format/manifest.h"
#include "shampoo/checkpoint_directory.h"
#include "tests/fuzz/target.h"

namespace {

using shampoo::fuzz::require;

/// What the blocks of a parameter that was accepted promise.
void examine(const shampoo::checkpoint::SavedParameter& parameter) {
  const auto grid = parameter.grid();
  require(static_cast<std::size_t>(grid.count()) == parameter.files.size());
  std::int64_t elements = 0;
  for (std::int64_t block = 0; block < grid.count(); ++block) {
    const auto box = parameter.block_state(block).box;
    require(grid.find(box) == block);
    require(grid.overlapping(box) == std::vector{block});
    elements += shampoo::grouping::numel(box.extent);
  }
  require(elements == shampoo::grouping::numel(parameter.merged_shape));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shampoo::checkpoint;
  const std::string input(data, data + size);
  const std::string text =
      input.starts_with('r') ? input.substr(1) : input + checksum_member(input);
  try {
    const Manifest manifest = manifest_from_json(text);
    for (const SavedParameter& parameter : manifest.parameters) examine(parameter);
    const std::string written = to_json(manifest);
    shampoo::fuzz::require(to_json(manifest_from_json(written)) == written);
  } catch (const shampoo::CheckpointError&) {
  }
  return 0;
}
