// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

namespace gpt {

using Bytes = std::vector<std::uint8_t>;

/// Bytes to train on and to validate with: every 16th piece of 4096 bytes is for the latter.
class Text {
 public:
  explicit Text(std::string_view all);

  const Bytes& train() const { return train_; }
  const Bytes& held_out() const { return held_out_; }
  std::uint64_t checksum() const { return checksum_; }  ///< of all bytes

  /// `count` windows of `length` bytes from random places of the training text, back to back. A
  /// function of text, seed and step. Throws std::invalid_argument where the text is shorter.
  Bytes batch(std::uint64_t seed, std::int64_t step, std::int64_t count, std::int64_t length) const;
  /// `count` windows, spread evenly over what is held out. Throws likewise.
  Bytes validation(std::int64_t count, std::int64_t length) const;

 private:
  Bytes train_, held_out_;
  std::uint64_t checksum_;
};

/// Of a file, or of all files of a folder by name. Throws std::runtime_error that names a file that
/// cannot be read, or a text that is shorter than 256 KiB.
Text read_text(const std::filesystem::path& path);

}  // namespace gpt
