// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "shampoo/user_state.h"

namespace shampoo {

/// A value as text, with its kind: "integer 7", "number 0.1", "text abc". Numbers are exact and do
/// not depend on the locale.
std::string extra_text(const ExtraValue& value);
/// Empty unless extra_text() gives this.
std::optional<ExtraValue> extra_from(std::string_view text);

/// The shortest text that leads back to the number.
std::string exact_text(double number);
/// Empty unless all of the text is a number.
std::optional<double> double_from(std::string_view text);
std::optional<std::int64_t> integer_from(std::string_view text);

}  // namespace shampoo
