// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/format/safetensors_writer.h"

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string_view>

#include "shampoo/checkpoint/format/tensor_entry.h"

namespace shampoo::checkpoint {
namespace {

/// Small enough to be in the cache still when it is written after the checksum looked at it.
constexpr std::uint64_t at_once = std::uint64_t{1} << 20;
constexpr std::uint64_t synced_together = std::uint64_t{8} << 20;

// Elements lie in the file as this machine keeps them.
static_assert(std::endian::native == std::endian::little);

std::string in_json(std::string_view text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    throw std::invalid_argument(in_quotes(text) + ": names and metadata must be UTF-8");
  }
}

std::string in_json(const std::map<std::string, std::string>& metadata) {
  std::string text;
  for (const auto& [key, value] : metadata)
    text += (text.empty() ? "{" : ",") + in_json(key) + ":" + in_json(value);
  return text + "}";
}

std::vector<std::uint64_t> sizes_of(std::span<const TensorDescription> tensors) {
  std::set<std::string_view> names;
  std::vector<std::uint64_t> sizes;
  std::uint64_t sum = 0;
  for (const TensorDescription& tensor : tensors) {
    if (tensor.name == metadata_key || !names.insert(tensor.name).second)
      throw std::invalid_argument(in_quotes(tensor.name) +
                                  ": names of tensors must be unique and not " +
                                  std::string(metadata_key));
    const auto bytes = bytes_of(tensor.dtype, tensor.shape);
    if (!bytes || __builtin_add_overflow(sum, *bytes, &sum))
      throw std::invalid_argument(in_quotes(tensor.name) +
                                  ": the sides must not be negative, and the tensors must fill "
                                  "whole bytes, fewer than 2^61");
    sizes.push_back(*bytes);
  }
  return sizes;
}

std::string header_of(std::span<const TensorDescription> tensors,
                      std::span<const std::uint64_t> sizes,
                      const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  if (!metadata.empty()) text += in_json(metadata_key) + ":" + in_json(metadata);
  std::uint64_t begin = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorDescription& tensor = tensors[i];
    text.append(text.size() > 1 ? "," : "").append(in_json(tensor.name));
    text.append(":{\"data_offsets\":[").append(std::to_string(begin)).append(",");
    text.append(std::to_string(begin + sizes[i])).append("],\"dtype\":\"");
    text.append(name_of(tensor.dtype)).append("\",\"shape\":[");
    for (std::size_t k = 0; k < tensor.shape.size(); ++k)
      text.append(k > 0 ? "," : "").append(std::to_string(tensor.shape[k]));
    text.append("]}");
    begin += sizes[i];
  }
  text += "}";
  constexpr std::size_t alignment = 8;
  text.append((alignment - text.size() % alignment) % alignment, ' ');
  if (text.size() > most_header_bytes)
    throw std::invalid_argument("a header of " + std::to_string(text.size()) + " bytes; at most " +
                                std::to_string(most_header_bytes) + " are allowed");
  std::string prefix(header_begin, '\0');
  for (std::size_t i = 0; i < prefix.size(); ++i)
    prefix[i] = static_cast<char>(text.size() >> (8 * i) & 0xff);
  return prefix + text;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path,
                                     std::span<const TensorDescription> tensors,
                                     const std::map<std::string, std::string>& metadata)
    : sizes_(sizes_of(tensors)), file_([&] {
        const std::string header = header_of(tensors, sizes_, metadata);
        File file = File::create(path);
        file.write(std::as_bytes(std::span(header)));
        written_.bytes = header.size();
        written_.header_checksum = grouping::hash(header);
        return file;
      }()) {
  for (const std::uint64_t size : sizes_) left_ += size;
  complete_tensors();
}

void SafetensorsWriter::complete_tensors() {
  while (next_ < sizes_.size() && in_tensor_ == sizes_[next_]) {
    written_.checksums.push_back(checksum_.value());
    checksum_.restart();
    in_tensor_ = 0;
    ++next_;
  }
}

void SafetensorsWriter::write(std::span<const std::byte> bytes) {
  if (bytes.size() > left_)
    throw std::invalid_argument(file_.path().string() + ": " + std::to_string(bytes.size()) +
                                " bytes to write, but only " + std::to_string(left_) +
                                " of the expected ones are missing");
  left_ -= bytes.size();
  while (!bytes.empty()) {
    const auto part =
        bytes.first(std::min<std::uint64_t>({bytes.size(), sizes_[next_] - in_tensor_, at_once}));
    checksum_.add(part);
    file_.write(part);
    written_.bytes += part.size();
    in_tensor_ += part.size();
    bytes = bytes.subspan(part.size());
    complete_tensors();
  }
  if (written_.bytes - syncing_ < synced_together) return;
  file_.start_sync(syncing_, written_.bytes - syncing_);
  syncing_ = written_.bytes;
}

WrittenFile SafetensorsWriter::finish() {
  if (left_ != 0)
    throw std::invalid_argument(file_.path().string() + ": " + std::to_string(left_) +
                                " bytes of the expected ones are missing");
  file_.sync();
  file_.close();
  return written_;
}

}  // namespace shampoo::checkpoint
