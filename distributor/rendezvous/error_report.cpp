// SPDX-License-Identifier: Apache-2.0
#include "distributor/rendezvous/error_report.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>

namespace shampoo {
namespace {

/// Bytes of the UTF-8 sequence at the beginning of `text`; 0: there is none.
std::size_t sequence(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < size) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const bool overlong = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xF0 && byte(1) < 0x90);
  const bool surrogate = first == 0xED && byte(1) > 0x9F;
  const bool too_large = first == 0xF4 && byte(1) > 0x8F;
  return overlong || surrogate || too_large ? 0 : size;
}

/// In quotes.
std::string json_text(std::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const std::size_t size = sequence(text);
    const char c = text.front();
    if (size == 0) {
      quoted += '?';
    } else if (c == '"' || c == '\\') {
      quoted.append(1, '\\').append(1, c);
    } else if (c >= 0 && c < ' ') {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\u%04x", static_cast<unsigned>(c));
      quoted += escape.data();
    } else {
      quoted += text.substr(0, size);
    }
    text.remove_prefix(size == 0 ? 1 : size);
  }
  return quoted + '"';
}

void write(const std::string& path, std::string_view message) {
  const auto now = std::chrono::duration_cast<std::chrono::seconds>(
      std::chrono::system_clock::now().time_since_epoch());
  const std::string text = json_text(message);
  // torchrun prints py_callstack, and cannot read a file that is only half there.
  const std::string neighbour = path + "." + std::to_string(getpid());
  std::ofstream file(neighbour, std::ios::binary);
  file << R"({"message": {"message": )" << text << R"(, "extraInfo": {"py_callstack": )" << text
       << R"(, "timestamp": ")" << now.count() << R"("}}})" << '\n';
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(neighbour, path, error);
  if (!file || error) std::filesystem::remove(neighbour, error);
}

}  // namespace

void report_error(std::string_view message) noexcept {
  const char* path = std::getenv("TORCHELASTIC_ERROR_FILE");
  if (path == nullptr || *path == '\0') return;
  try {
    write(path, message);
  } catch (const std::exception&) {
    // The process is failing already, for a better reason.
  }
}

}  // namespace shampoo
