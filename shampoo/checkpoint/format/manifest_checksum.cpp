// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/format/manifest_checksum.h"

#include "shampoo/checkpoint/format/checksum.h"
#include "shampoo/checkpoint_error.h"

namespace shampoo::checkpoint {
namespace {

std::string seal_of(std::string_view body) {
  return ",\n\"checksum\":\"" + hexadecimal(checksum(body)) + "\"}\n";
}

}  // namespace

std::string sealed(const std::string& body) { return body + seal_of(body); }

void require_seal(std::string_view text) {
  const std::size_t length = seal_of("").size();
  if (text.size() < length)
    throw CheckpointError("manifest: cut off: the checksum at its end is missing");
  const std::string_view body = text.substr(0, text.size() - length);
  if (text.substr(body.size()) != seal_of(body))
    throw CheckpointError("manifest: its checksum is wrong: it was changed or cut off");
  // JSON readers take it for the end of the text.
  if (body.find('\0') != std::string_view::npos)
    throw CheckpointError("manifest: a NUL byte at byte " + std::to_string(body.find('\0')));
}

}  // namespace shampoo::checkpoint
