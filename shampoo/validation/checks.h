// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "grouping/number_text.h"

namespace shampoo {

/// Accepted values of a rate.
enum class RateRange : std::uint8_t {
  unread,         ///< must stay at its default
  at_least_zero,  ///< >= 0, and finite in the arithmetic of the recipe
  positive,       ///< > 0, and as finite
  normal,         ///< >= 2^-126, so positive in float32, too, and as finite
  unit_open,      ///< [0, 1)
  unit_closed,    ///< [0, 1]
  unit_positive,  ///< (0, 1]
  zero_only       ///< 0
};

/// A rate that a kind reads.
struct RateUse {
  std::string_view name;
  RateRange range;
};

/// A group in errors: "group 0", "group 0 'vectors'".
inline std::string title_of(int group, std::string_view label) {
  const std::string title = "group " + std::to_string(group);
  return label.empty() ? title : title + " '" + std::string(label) + "'";
}

/// Checks values of a subject: a group, options, a schedule. Messages: "group 0: FIELD must be
/// RANGE, got VALUE", with a FIELD of within("recipe.grafting") behind that path and a dot.
class Checks {
 public:
  /// `subject`: of a group, see title_of(). `parameter`: its name, where the values are those of
  /// one. Both are borrowed.
  explicit Checks(std::string_view subject, std::string_view parameter = {})
      : subject_(subject), parameter_(parameter) {}

  Checks within(std::string_view path) const {
    Checks inner = *this;
    inner.path_.append(path).append(".");
    return inner;
  }

  /// "group 0, parameter 'bias'"
  std::string subject() const {
    std::string text(subject_);
    if (!parameter_.empty()) text.append(", parameter '").append(parameter_).append("'");
    return text;
  }

  /// Throws std::invalid_argument unless `holds`.
  template <typename Value>
  void require(bool holds, std::string_view field, std::string_view range,
               const Value& found) const {
    if (!holds) fail(field, range, found);
  }

  void at_least_one(std::string_view field, std::int64_t value) const {
    require(value >= 1, field, ">= 1", value);
  }
  void at_least_zero(std::string_view field, double value) const {
    require(value >= 0 && std::isfinite(value), field, "in [0, inf)", value);
  }
  void positive(std::string_view field, double value) const {
    require(value > 0 && std::isfinite(value), field, "in (0, inf)", value);
  }
  void normal(std::string_view field, double value) const {
    require(value >= 0x1p-126 && std::isfinite(value), field, "in [2^-126, inf)", value);
  }
  void unit_open(std::string_view field, double value) const {
    require(value >= 0 && value < 1, field, "in [0, 1)", value);
  }
  void unit_closed(std::string_view field, double value) const {
    require(value >= 0 && value <= 1, field, "in [0, 1]", value);
  }
  void unit_positive(std::string_view field, double value) const {
    require(value > 0 && value <= 1, field, "in (0, 1]", value);
  }

 private:
  template <typename Value>
  [[noreturn]] void fail(std::string_view field, std::string_view range, const Value& found) const {
    std::string text;
    if constexpr (std::floating_point<Value>)
      text = grouping::exact_text(found);
    else if constexpr (std::integral<Value>)
      text = std::to_string(found);
    else
      text = std::string(found);
    throw std::invalid_argument(subject() + ": " + path_ + std::string(field) + " must be " +
                                std::string(range) + ", got " + text);
  }

  std::string_view subject_, parameter_;
  std::string path_;
};

}  // namespace shampoo
