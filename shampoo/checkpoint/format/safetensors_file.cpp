// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/format/safetensors_file.h"

#include <stdexcept>

#include "shampoo/checkpoint/storage/file.h"
#include "shampoo/checkpoint_error.h"

namespace shampoo::checkpoint {
namespace {

ReadHeader read_named(const File& file) {
  try {
    return read_header(file);
  } catch (const CheckpointError& error) {
    const std::string text = error.what();
    if (text.starts_with(file.path().string())) throw;
    throw CheckpointError(file.path().string() + ": " + text);
  }
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : path_(path) {
  const File file = File::open(path);
  bytes_ = file.size();
  read_ = read_named(file);
}

std::optional<TensorEntry> SafetensorsFile::find(std::string_view name) const {
  const auto index = read_.header.find(name);
  if (!index) return std::nullopt;
  return read_.header[*index];
}

void SafetensorsFile::read(const TensorEntry& tensor, std::uint64_t offset,
                           std::span<std::byte> into) const {
  const std::uint64_t bytes = tensor.end - tensor.begin;
  if (offset > bytes || into.size() > bytes - offset)
    throw std::invalid_argument(
        path().string() + ": tensor " + in_quotes(tensor.name) + " has " + std::to_string(bytes) +
        " bytes, not " + std::to_string(into.size()) + " from byte " + std::to_string(offset));
  File::open(path_).read(read_.data_begin + tensor.begin + offset, into);
}

}  // namespace shampoo::checkpoint
