// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/format/safetensors_index.h"

#include <algorithm>
#include <numeric>

#include "shampoo/checkpoint_error.h"

namespace shampoo::checkpoint {

// Seven bits per byte, the lowest first: no number is longer than its decimal digits.
void Header::put(std::uint64_t number) {
  for (; number >= 0x80; number >>= 7) packed_.push_back(static_cast<unsigned char>(number | 0x80));
  packed_.push_back(static_cast<unsigned char>(number));
}

std::uint64_t Header::number_at(Position& position) const {
  std::uint64_t number = 0;
  for (int shift = 0;; shift += 7) {
    const unsigned char byte = packed_[position++];
    number |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return number;
  }
}

void Header::put(std::string_view text) {
  put(text.size());
  packed_.insert(packed_.end(), text.begin(), text.end());
}

std::string Header::text_at(Position& position) const {
  const auto length = number_at(position);
  const auto begin = packed_.begin() + position;
  position += static_cast<Position>(length);
  return {begin, begin + static_cast<std::ptrdiff_t>(length)};
}

int Header::compare(Position position, std::string_view text) const {
  const std::uint64_t length = number_at(position);
  const std::uint64_t shorter = std::min<std::uint64_t>(length, text.size());
  for (std::uint64_t i = 0; i < shorter; ++i) {
    const auto theirs = static_cast<unsigned char>(text[i]);
    if (packed_[position + i] != theirs) return packed_[position + i] < theirs ? -1 : 1;
  }
  return length == text.size() ? 0 : length < text.size() ? -1 : 1;
}

int Header::compare(Position position, Position other) const {
  const std::uint64_t length = number_at(position);
  const std::uint64_t other_length = number_at(other);
  const std::uint64_t shorter = std::min(length, other_length);
  for (std::uint64_t i = 0; i < shorter; ++i) {
    const unsigned char ours = packed_[position + i];
    const unsigned char theirs = packed_[other + i];
    if (ours != theirs) return ours < theirs ? -1 : 1;
  }
  return length == other_length ? 0 : length < other_length ? -1 : 1;
}

void Header::add(const TensorEntry& tensor) {
  tensors_.push_back(static_cast<Position>(packed_.size()));
  put(tensor.begin);
  put(tensor.end);
  put(tensor.name);
  put(static_cast<std::uint64_t>(tensor.dtype));
  put(tensor.shape.size());
  for (const std::int64_t side : tensor.shape) put(static_cast<std::uint64_t>(side));
}

void Header::add_metadata(std::string_view key, std::string_view value) {
  metadata_.push_back(static_cast<Position>(packed_.size()));
  put(key);
  put(value);
}

TensorEntry Header::operator[](int index) const {
  Position position = tensors_.at(static_cast<std::size_t>(index));
  TensorEntry tensor;
  tensor.begin = number_at(position);
  tensor.end = number_at(position);
  tensor.name = text_at(position);
  tensor.dtype = static_cast<Dtype>(number_at(position));
  tensor.shape.resize(number_at(position));
  for (std::int64_t& side : tensor.shape) side = static_cast<std::int64_t>(number_at(position));
  return tensor;
}

std::pair<std::uint64_t, std::uint64_t> Header::range(Position tensor) const {
  const std::uint64_t begin = number_at(tensor);
  return {begin, number_at(tensor)};
}

Header::Position Header::name(Position tensor) const {
  number_at(tensor);
  number_at(tensor);
  return tensor;
}

void Header::require_cover(std::uint64_t data_bytes) const {
  std::uint64_t covered = 0;
  for (const Position tensor : tensors_) {
    const auto [begin, end] = range(tensor);
    Position position = name(tensor);
    if (begin != covered)
      throw CheckpointError("tensor " + in_quotes(text_at(position)) + " begins at byte " +
                            std::to_string(begin) + " of the data, where byte " +
                            std::to_string(covered) + " is next");
    covered = end;
  }
  if (covered != data_bytes)
    throw CheckpointError("the tensors end at byte " + std::to_string(covered) +
                          " of the data, which has " + std::to_string(data_bytes) + " bytes");
}

void Header::index_names() {
  by_name_.resize(tensors_.size());
  std::iota(by_name_.begin(), by_name_.end(), 0);
  const auto name_of = [&](int index) { return name(tensors_[index]); };
  std::sort(by_name_.begin(), by_name_.end(),
            [&](int a, int b) { return compare(name_of(a), name_of(b)) < 0; });
  for (std::size_t i = 1; i < by_name_.size(); ++i) {
    Position position = name_of(by_name_[i]);
    if (compare(name_of(by_name_[i - 1]), position) == 0)
      throw CheckpointError("tensor " + in_quotes(text_at(position)) + " occurs twice");
  }
}

void Header::index_metadata() {
  std::sort(metadata_.begin(), metadata_.end(),
            [&](Position a, Position b) { return compare(a, b) < 0; });
  for (std::size_t i = 1; i < metadata_.size(); ++i) {
    Position position = metadata_[i];
    if (compare(metadata_[i - 1], position) == 0)
      throw CheckpointError("the key " + in_quotes(text_at(position)) +
                            " of __metadata__ occurs twice");
  }
}

void Header::seal(std::uint64_t data_bytes) {
  std::sort(tensors_.begin(), tensors_.end(),
            [&](Position a, Position b) { return range(a) < range(b); });
  index_names();
  index_metadata();
  require_cover(data_bytes);
}

std::optional<int> Header::find(std::string_view wanted) const {
  const auto found = std::partition_point(by_name_.begin(), by_name_.end(), [&](int index) {
    return compare(name(tensors_[index]), wanted) < 0;
  });
  if (found == by_name_.end() || compare(name(tensors_[*found]), wanted) != 0) return std::nullopt;
  return *found;
}

std::optional<std::string> Header::metadata(std::string_view key) const {
  for (Position position : metadata_)
    if (compare(position, key) == 0) {
      text_at(position);
      return text_at(position);
    }
  return std::nullopt;
}

}  // namespace shampoo::checkpoint
