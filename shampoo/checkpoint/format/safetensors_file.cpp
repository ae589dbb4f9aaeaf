// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/format/safetensors_file.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "grouping/hash.h"
#include "shampoo/checkpoint_directory.h"

namespace shampoo::checkpoint {

void require_size(const std::filesystem::path& file, std::uint64_t bytes, std::uint64_t wanted) {
  if (bytes != wanted)
    throw CheckpointError(file.string() + ": " + std::to_string(bytes) +
                          " bytes, but the manifest says " + std::to_string(wanted));
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path,
                                 std::optional<std::uint64_t> bytes)
    : file_(File::open(path)), bytes_(file_.size()) {
  if (bytes) require_size(path, bytes_, *bytes);
  try {
    read_header();
    index_names();
  } catch (const CheckpointError& error) {
    const std::string text = error.what();
    if (text.starts_with(path.string())) throw;
    throw CheckpointError(path.string() + ": " + text);
  }
}

void SafetensorsFile::read_header() {
  if (bytes_ < header_begin)
    throw CheckpointError("has " + std::to_string(bytes_) + " bytes; the shortest file has " +
                          std::to_string(header_begin));
  std::string text(header_begin, '\0');
  file_.read(0, std::as_writable_bytes(std::span(text)));
  std::uint64_t length = 0;
  for (std::size_t i = header_begin; i-- > 0;)
    length = length << 8 | static_cast<unsigned char>(text[i]);
  if (length > most_header_bytes)
    throw CheckpointError("has a header of " + std::to_string(length) + " bytes; at most " +
                          std::to_string(most_header_bytes) + " are allowed");
  if (length > bytes_ - header_begin)
    throw CheckpointError("has a header of " + std::to_string(length) + " bytes, but only " +
                          std::to_string(bytes_ - header_begin) + " after byte 8");
  data_begin_ = header_begin + length;
  text.resize(data_begin_);
  file_.read(header_begin, std::as_writable_bytes(std::span(text)).subspan(header_begin));
  header_checksum_ = grouping::hash(text);
  header_ =
      parse_safetensors_header(std::string_view(text).substr(header_begin), bytes_ - data_begin_);
}

void SafetensorsFile::index_names() {
  const auto name_of = [&](std::uint32_t index) -> const std::string& {
    return tensors()[index].name;
  };
  by_name_.resize(tensors().size());
  std::iota(by_name_.begin(), by_name_.end(), 0);
  std::ranges::sort(by_name_, {}, name_of);
  const auto twice = std::ranges::adjacent_find(by_name_, {}, name_of);
  if (twice != by_name_.end())
    throw CheckpointError("tensor " + in_quotes(name_of(*twice)) + " occurs twice");
}

std::optional<std::size_t> SafetensorsFile::find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(
      by_name_, name, {},
      [&](std::uint32_t index) -> std::string_view { return tensors()[index].name; });
  if (found == by_name_.end() || tensors()[*found].name != name) return std::nullopt;
  return *found;
}

std::optional<std::string> SafetensorsFile::metadata(std::string_view key) const {
  const auto found = header_.metadata.find(key);
  if (found == header_.metadata.end()) return std::nullopt;
  return found->second;
}

void SafetensorsFile::read(const TensorEntry& tensor, std::uint64_t offset,
                           std::span<std::byte> into) const {
  const std::uint64_t bytes = tensor.end - tensor.begin;
  if (offset > bytes || into.size() > bytes - offset)
    throw std::invalid_argument(
        path().string() + ": tensor " + in_quotes(tensor.name) + " has " + std::to_string(bytes) +
        " bytes, not " + std::to_string(into.size()) + " from byte " + std::to_string(offset));
  file_.read(data_begin_ + tensor.begin + offset, into);
}

}  // namespace shampoo::checkpoint
