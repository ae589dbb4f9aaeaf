// SPDX-License-Identifier: Apache-2.0
#include "distributor/join/host_list.h"

#include <algorithm>
#include <cstdint>
#include <stdexcept>

namespace shampoo::joining {
namespace {

/// Digits "007" to "120"; the width is that of the lower end.
struct Range {
  std::uint64_t low = 0, high = 0;
  std::size_t width = 0;

  std::uint64_t count() const { return high - low + 1; }
  std::string number(std::uint64_t index) const {
    const std::string digits = std::to_string(low + index);
    return std::string(width > digits.size() ? width - digits.size() : 0, '0') + digits;
  }
};

/// Text, then a number out of the ranges; no ranges: text only.
struct Part {
  std::string text;
  std::vector<Range> ranges;
};

using Name = std::vector<Part>;

class Parser {
 public:
  explicit Parser(std::string_view list) : list_(list) {}

  std::vector<Name> names() {
    std::vector<Name> all;
    do {
      all.push_back(name());
    } while (accept(','));
    if (at_ != list_.size()) refuse("a comma or the end");
    return all;
  }

 private:
  Name name() {
    Name parts;
    while (true) {
      std::string text = letters();
      if (!accept('[')) {
        if (text.empty() && parts.empty()) refuse("a host name");
        parts.push_back({std::move(text), {}});
        return parts;
      }
      Part part{std::move(text), {}};
      do {
        part.ranges.push_back(range());
      } while (accept(','));
      if (!accept(']')) refuse("a closing bracket");
      parts.push_back(std::move(part));
    }
  }

  std::string letters() {
    const std::size_t begin = at_;
    while (at_ < list_.size() && is_letter(list_[at_])) ++at_;
    return std::string(list_.substr(begin, at_ - begin));
  }

  Range range() {
    const std::size_t begin = at_;
    Range range;
    range.low = range.high = number();
    range.width = at_ - begin;
    if (accept('-')) range.high = number();
    if (range.high < range.low) refuse("an upper end not below the lower one");
    return range;
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

  bool accept(char c) {
    if (at_ == list_.size() || list_[at_] != c) return false;
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

/// Of one name; `most` + 1 stands for all larger numbers.
std::uint64_t count(const Name& name, std::uint64_t most) {
  std::uint64_t product = 1;
  for (const Part& part : name) {
    if (part.ranges.empty()) continue;
    std::uint64_t sum = 0;
    for (const Range& range : part.ranges) sum = std::min(sum + range.count(), most + 1);
    product = sum > most / product ? most + 1 : product * sum;
    if (product > most) return product;
  }
  return product;
}

void expand(const Name& name, std::size_t part, const std::string& begun,
            std::vector<std::string>& hosts) {
  if (part == name.size()) {
    hosts.push_back(begun);
    return;
  }
  const std::string text = begun + name[part].text;
  if (name[part].ranges.empty()) expand(name, part + 1, text, hosts);
  for (const Range& range : name[part].ranges) {
    for (std::uint64_t i = 0; i < range.count(); ++i) {
      expand(name, part + 1, text + range.number(i), hosts);
    }
  }
}

}  // namespace

std::vector<std::string> expand_host_list(std::string_view list, std::size_t most) {
  const std::vector<Name> names = Parser(list).names();
  std::uint64_t total = 0;
  for (const Name& name : names)
    total = std::min<std::uint64_t>(total + count(name, most), most + 1);
  if (total > most) {
    throw std::invalid_argument("host list \"" + std::string(list.substr(0, 200)) +
                                "\": more than " + std::to_string(most) + " hosts");
  }
  std::vector<std::string> hosts;
  hosts.reserve(total);
  for (const Name& name : names) expand(name, 0, "", hosts);
  return hosts;
}

std::string first_host(std::string_view list) {
  const std::vector<Name> names = Parser(list).names();
  std::string host;
  for (const Part& part : names.front()) {
    host += part.text;
    if (!part.ranges.empty()) host += part.ranges.front().number(0);
  }
  return host;
}

}  // namespace shampoo::joining
