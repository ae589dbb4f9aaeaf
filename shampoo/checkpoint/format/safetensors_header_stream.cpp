// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/format/safetensors_header_stream.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "shampoo/checkpoint_error.h"

namespace shampoo::checkpoint {
namespace {

// Between words, outside of strings.
constexpr std::string_view marks = "{}[],: \t\n\r";

[[noreturn]] void refuse(const std::string& fault, std::uint64_t position) {
  throw CheckpointError(fault + " at byte " + std::to_string(position));
}

}  // namespace

HeaderText::HeaderText(const File& file, std::uint64_t end, std::span<const std::byte> before)
    : file_(file), position_(header_begin), end_(end) {
  checksum_.add(before);
}

void HeaderText::fill() {
  const auto wanted = std::min<std::uint64_t>(end_ - position_, buffer_.size());
  const auto bytes = std::span(buffer_).first(static_cast<std::size_t>(wanted));
  file_.read(position_, bytes);
  checksum_.add(bytes);
  filled_ = bytes.size();
  next_ = 0;
}

char HeaderText::front() {
  if (next_ == filled_) fill();
  return static_cast<char>(buffer_[next_]);
}

void HeaderText::advance() {
  examine(front());
  ++next_;
  ++position_;
}

void HeaderText::examine(char byte) {
  if (position_ == header_begin && byte != '{')
    refuse("the header does not begin with '{'", position_);
  // JSON readers take it for the end of the text.
  if (byte == '\0') refuse("a NUL byte in the header", position_);
  if (position_ - word_begin_ > (in_string_ ? longest_string : longest_number))
    refuse("a word of more than " + std::to_string(position_ - word_begin_ - 1) +
               " bytes in the header",
           word_begin_);
  if (escaped_) {
    escaped_ = false;
  } else if (byte == '"') {
    in_string_ = !in_string_;
    word_begin_ = position_;
  } else if (in_string_) {
    escaped_ = byte == '\\';
  } else if (marks.find(byte) != std::string_view::npos) {
    word_begin_ = position_;
  }
}

}  // namespace shampoo::checkpoint
