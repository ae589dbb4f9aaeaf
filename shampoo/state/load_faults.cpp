// SPDX-License-Identifier: Apache-2.0
#include "shampoo/state/load_faults.h"

#include <algorithm>
#include <stdexcept>

namespace shampoo {

namespace {

std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t shown = 5;
  std::string text;
  for (std::size_t i = 0; i < std::min(shown, names.size()); ++i)
    text += (i > 0 ? ", '" : "'") + names[i] + "'";
  if (names.size() > shown) text += " and " + std::to_string(names.size() - shown) + " more";
  return text;
}

/// Empty: nothing is missing or unexpected.
std::string incompleteness(const LoadReport& report) {
  std::string text;
  const auto add = [&](const std::vector<std::string>& names, const char* what) {
    if (names.empty()) return;
    text += (text.empty() ? "" : "; ") + std::to_string(names.size()) + what + listed(names);
  };
  add(report.missing, " missing: ");
  add(report.unexpected, " unknown to the optimizer: ");
  return text.empty() ? text : text + "; " + strict_hint;
}

}  // namespace

void LoadFaults::throw_if_any(const LoadReport* report) const {
  constexpr std::size_t shown = 20;
  if (faults_.empty()) return;
  std::string text = "state dict: ";
  for (std::size_t i = 0; i < std::min(shown, faults_.size()); ++i)
    text += (i > 0 ? "\n" : "") + faults_[i];
  if (faults_.size() > shown) text += "\nand " + std::to_string(faults_.size() - shown) + " more";
  if (const std::string lacks = report ? incompleteness(*report) : ""; !lacks.empty())
    text += "\n" + lacks;
  throw std::invalid_argument(text);
}

void require_complete(const LoadReport& report) {
  if (const std::string lacks = incompleteness(report); !lacks.empty())
    throw std::invalid_argument("state dict: " + lacks);
}

}  // namespace shampoo
