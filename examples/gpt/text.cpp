// SPDX-License-Identifier: Apache-2.0
#include "examples/gpt/text.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>

#include "examples/checksum.h"
#include "examples/fashion/random.h"

namespace gpt {

namespace {

constexpr std::size_t piece = 4096, one_in = 16;

/// Places at which a window of this length can begin.
std::int64_t places(const Bytes& text, std::int64_t length) {
  if (length > std::ssize(text))
    throw std::invalid_argument("--context: the text is shorter than a window of " +
                                std::to_string(length) + " bytes");
  return std::ssize(text) - length + 1;
}

void add_window(const Bytes& text, std::int64_t first, std::int64_t length, Bytes& windows) {
  windows.insert(windows.end(), text.begin() + first, text.begin() + first + length);
}

std::string content(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(stream), {});
  if (!stream) throw std::runtime_error(file.string() + ": cannot be read");
  return text;
}

}  // namespace

Text::Text(std::string_view all) : checksum_(examples::checksum(std::as_bytes(std::span(all)))) {
  for (std::size_t i = 0; i * piece < all.size(); ++i) {
    const std::string_view part = all.substr(i * piece, piece);
    Bytes& to = i % one_in == one_in - 1 ? held_out_ : train_;
    to.insert(to.end(), part.begin(), part.end());
  }
}

Bytes Text::batch(std::uint64_t seed, std::int64_t step, std::int64_t count,
                  std::int64_t length) const {
  fashion::Random random(seed + 0x9e3779b97f4a7c15u * (static_cast<std::uint64_t>(step) + 1));
  const auto all = static_cast<double>(places(train_, length));
  Bytes windows;
  for (std::int64_t i = 0; i < count; ++i)
    add_window(train_, static_cast<std::int64_t>(random.uniform() * all), length, windows);
  return windows;
}

Bytes Text::validation(std::int64_t count, std::int64_t length) const {
  Bytes windows;
  for (std::int64_t i = 0; i < count; ++i)
    add_window(held_out_, i * places(held_out_, length) / count, length, windows);
  return windows;
}

Text read_text(const std::filesystem::path& path) {
  std::vector<std::filesystem::path> files;
  if (std::filesystem::is_directory(path)) {
    for (const auto& entry : std::filesystem::directory_iterator(path))
      if (entry.is_regular_file()) files.push_back(entry.path());
    std::ranges::sort(files);
  } else {
    files.push_back(path);
  }
  std::string all;
  for (const auto& file : files) all += content(file);
  if (all.size() < 256 * 1024)
    throw std::runtime_error(path.string() + ": a text of at least 256 KiB is needed, this has " +
                             std::to_string(all.size()) + " bytes");
  return Text(all);
}

}  // namespace gpt
