// SPDX-License-Identifier: Apache-2.0
#include "distributor/rendezvous/host_list.h"

#include <cstdint>
#include <stdexcept>

namespace shampoo::rendezvous {
namespace {

/// Reads all of a list, and makes the first host of each of its names.
class Parser {
 public:
  explicit Parser(std::string_view list) : list_(list) {}

  std::string first_host() {
    const std::string host = name();
    while (accept(',')) name();
    if (at_ != list_.size()) refuse("a comma or the end");
    return host;
  }

 private:
  /// Text and brackets by turns: "node[001-004,7]x".
  std::string name() {
    std::string host = letters();
    if (host.empty() && !begins('[')) refuse("a host name");
    while (accept('[')) {
      host += range();
      while (accept(',')) range();
      if (!accept(']')) refuse("a closing bracket");
      host += letters();
    }
    return host;
  }

  std::string letters() {
    const std::size_t begin = at_;
    while (at_ < list_.size() && is_letter(list_[at_])) ++at_;
    return std::string(list_.substr(begin, at_ - begin));
  }

  /// The digits of its lower end.
  std::string range() {
    const std::size_t begin = at_;
    const std::uint64_t low = number();
    const std::string digits(list_.substr(begin, at_ - begin));
    if (accept('-') && number() < low) refuse("an upper end not below the lower one");
    return digits;
  }

  std::uint64_t number() {
    const std::size_t begin = at_;
    std::uint64_t value = 0;
    for (; at_ < list_.size() && list_[at_] >= '0' && list_[at_] <= '9'; ++at_) {
      if (at_ - begin == 18) refuse("a number of at most 18 digits");
      value = value * 10 + static_cast<std::uint64_t>(list_[at_] - '0');
    }
    if (at_ == begin) refuse("a number");
    return value;
  }

  bool begins(char c) const { return at_ < list_.size() && list_[at_] == c; }

  bool accept(char c) {
    if (!begins(c)) return false;
    ++at_;
    return true;
  }

  static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_';
  }

  [[noreturn]] void refuse(const std::string& wanted) const {
    throw std::invalid_argument("host list \"" + std::string(list_.substr(0, 200)) +
                                "\": expected " + wanted + " at character " +
                                std::to_string(at_ + 1));
  }

  std::string_view list_;
  std::size_t at_ = 0;
};

}  // namespace

std::string first_host(std::string_view list) { return Parser(list).first_host(); }

}  // namespace shampoo::rendezvous
