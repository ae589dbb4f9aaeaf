// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace shampoo::launcher {

/// Cuts a stream into lines.
class LineBuffer {
 public:
  /// Of a line, with its end.
  using Receiver = std::function<void(std::string_view)>;

  /// Longer lines arrive in pieces of `longest` bytes, each with an end of its own.
  explicit LineBuffer(std::size_t longest = std::size_t{64} << 10) : longest_(longest) {}

  void add(std::string_view bytes, const Receiver& receive);
  /// Hands out a last line without an end.
  void flush(const Receiver& receive);

 private:
  std::size_t longest_;
  std::string begun_;
};

}  // namespace shampoo::launcher
