// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "shampoo/checkpoint/format/checksum.h"
#include "shampoo/checkpoint/format/manifest.h"
#include "shampoo/checkpoint/format/manifest_checksum.h"
#include "shampoo/checkpoint_error.h"

namespace shampoo::checkpoint {
namespace {

// Keeps the order of the fields.
using Json = nlohmann::ordered_json;

Json json_of(const SavedPiece& piece) {
  return {{"offset", piece.box.offset},
          {"extent", piece.box.extent},
          {"file", piece.file},
          {"key", piece.key},
          {"xxh3", hexadecimal(piece.checksum)}};
}

Json json_of(const ShardFile& file) {
  return {{"name", file.name},
          {"bytes", file.bytes},
          {"header_xxh3", hexadecimal(file.header_checksum)}};
}

template <typename Parts>
std::string lines(const Parts& parts) {
  std::string text = "[";
  for (const auto& part : parts) text += (text.size() > 1 ? ",\n" : "\n") + json_of(part).dump();
  return text + "]";
}

std::string text_of(const SavedTensor& tensor) {
  const Json head = {
      {"name", tensor.name}, {"dtype", name_of(tensor.dtype)}, {"shape", tensor.shape}};
  std::string text = head.dump();
  text.pop_back();
  return text + ",\"pieces\":" + lines(tensor.pieces) + "}";
}

std::string text_of(const std::map<std::string, std::string>& values) {
  std::string text = "{";
  for (const auto& [key, value] : values)
    text += (text.size() > 1 ? ",\n" : "\n") + Json(key).dump() + ":" + Json(value).dump();
  return text + "}";
}

std::string body_of(const Manifest& manifest) {
  const Json head = {{"schema", manifest_schema},
                     {"save", manifest.save},
                     {"library_version", manifest.library_version},
                     {"world", manifest.world},
                     {"step", manifest.step},
                     {"plan_hash", hexadecimal(manifest.plan_hash)},
                     {"arithmetic", manifest.arithmetic}};
  std::string text = head.dump();
  text.pop_back();
  text += ",\n\"values\":" + text_of(manifest.values) + ",\n\"files\":" + lines(manifest.files) +
          ",\n\"tensors\":[";
  bool first = true;
  for (const SavedTensor& tensor : manifest.tensors) {
    text += (first ? "\n" : ",\n") + text_of(tensor);
    first = false;
  }
  return text + "]";
}

}  // namespace

std::string to_json(const Manifest& manifest) {
  validate(manifest);
  try {
    return sealed(body_of(manifest));
  } catch (const Json::exception& error) {
    throw CheckpointError(std::string("manifest: ") + error.what());
  }
}

}  // namespace shampoo::checkpoint
