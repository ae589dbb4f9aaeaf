// SPDX-License-Identifier: Apache-2.0
// The text of a manifest. An input that begins with 'r' is the text as it is; any other gets the
// checksum at its end, without which nothing else would be looked at.
#include <string>

#include "shampoo/checkpoint/format/manifest.h"
#include "shampoo/checkpoint_directory.h"
#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shampoo::checkpoint;
  const std::string input(data, data + size);
  const std::string text =
      input.starts_with('r') ? input.substr(1) : input + checksum_member(input);
  try {
    const std::string written = to_json(manifest_from_json(text));
    shampoo::fuzz::require(to_json(manifest_from_json(written)) == written);
  } catch (const shampoo::CheckpointError&) {
  }
  return 0;
}
