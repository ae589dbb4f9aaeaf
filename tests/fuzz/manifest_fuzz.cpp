// SPDX-License-Identifier: Apache-2.0
// The text of a manifest. An input that begins with 'r' is the text as it is; any other gets the
// seal at its end, without which nothing else would be looked at.
#include <string>

#include "shampoo/checkpoint/format/manifest.h"
#include "shampoo/checkpoint/format/manifest_checksum.h"
#include "shampoo/checkpoint_error.h"
#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shampoo::checkpoint;
  const std::string input(data, data + size);
  const std::string text = input.starts_with('r') ? input.substr(1) : sealed(input);
  try {
    const Manifest manifest = manifest_from_json(text);
    shampoo::fuzz::require(manifest_from_json(to_json(manifest)) == manifest);
  } catch (const shampoo::CheckpointError&) {
  }
  return 0;
}
