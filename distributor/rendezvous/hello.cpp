// SPDX-License-Identifier: Apache-2.0
#include "distributor/rendezvous/hello.h"

#include <algorithm>
#include <charconv>
#include <random>

namespace shampoo::joining {
namespace {

std::string one_line(std::string text) {
  text.resize(std::min<std::size_t>(text.size(), 1000));
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < ' '; }, ' ');
  return text;
}

/// Reads "name=value\n" lines in their order.
class Lines {
 public:
  explicit Lines(std::string_view text) : left_(text) {}

  std::string text(std::string_view name) {
    const std::size_t end = left_.find('\n');
    if (end == std::string_view::npos || !left_.starts_with(name) || left_.size() <= name.size() ||
        left_[name.size()] != '=') {
      good_ = false;
      return {};
    }
    const std::string_view value = left_.substr(name.size() + 1, end - name.size() - 1);
    left_.remove_prefix(end + 1);
    if (value.size() > 1000) good_ = false;
    return std::string(value);
  }

  template <typename Number>
  Number number(std::string_view name, Number low) {
    const std::string value = text(name);
    Number number = low;
    const auto [stop, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || stop != value.data() + value.size() || number < low) good_ = false;
    return number;
  }

  bool good() const { return good_; }

 private:
  std::string_view left_;
  bool good_ = true;
};

}  // namespace

std::string text_of(const Hello& hello) {
  return "shampoo join=" + std::to_string(hello.protocol) + "\nrank=" + std::to_string(hello.rank) +
         "\nsize=" + std::to_string(hello.size) + "\nlibrary=" + one_line(hello.library) +
         "\nbuild=" + one_line(hello.build) + "\nhost=" + one_line(hello.host) +
         "\nprocess=" + std::to_string(hello.process) + "\nnonce=" + hello.nonce +
         "\nfault=" + one_line(hello.fault) + "\n";
}

std::optional<Hello> hello_of(std::string_view text) {
  Lines lines(text);
  Hello hello;
  hello.protocol = lines.number("shampoo join", 1);
  hello.rank = lines.number("rank", 0);
  hello.size = lines.number("size", 1);
  hello.library = lines.text("library");
  hello.build = lines.text("build");
  hello.host = lines.text("host");
  hello.process = lines.number<std::int64_t>("process", 0);
  hello.nonce = lines.text("nonce");
  hello.fault = lines.text("fault");
  if (!lines.good() || !is_id(hello.nonce)) return std::nullopt;
  return hello;
}

std::string name_of(const Hello& hello) {
  return "rank " + std::to_string(hello.rank) + " (host " + hello.host + ", process " +
         std::to_string(hello.process) + ")";
}

std::string misfit(const Hello& one, const Hello& other) {
  const auto differ = [&](const std::string& what, const std::string& first,
                          const std::string& second) {
    return name_of(one) + " has " + what + " " + first + ", " + name_of(other) + " has " + second;
  };
  if (one.protocol != other.protocol) {
    return differ("the joining protocol", std::to_string(one.protocol),
                  std::to_string(other.protocol));
  }
  if (one.size != other.size) {
    return differ("the world size", std::to_string(one.size), std::to_string(other.size));
  }
  if (one.library != other.library) {
    return differ("the library version", one.library, other.library);
  }
  if (one_line(one.build) != one_line(other.build)) {
    return differ("the build", "\"" + one.build + "\"", "\"" + other.build + "\"");
  }
  for (const Hello& hello : {one, other}) {
    if (!hello.fault.empty()) return name_of(hello) + ": " + hello.fault;
  }
  return {};
}

std::string random_id() {
  constexpr std::string_view digits = "0123456789abcdef";
  std::random_device device;
  std::string id;
  while (id.size() < 32) {
    auto bits = static_cast<std::uint32_t>(device());
    for (int i = 0; i < 8; ++i, bits >>= 4) id += digits[bits & 15];
  }
  return id;
}

bool is_id(std::string_view text) {
  return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace shampoo::joining
