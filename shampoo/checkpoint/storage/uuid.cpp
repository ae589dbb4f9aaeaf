// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/storage/uuid.h"

#include <random>

namespace shampoo::checkpoint {
namespace {

// x: any digit.
constexpr std::string_view form = "xxxxxxxx-xxxx-4xxx-8xxx-xxxxxxxxxxxx";
constexpr std::string_view digits = "0123456789abcdef";

}  // namespace

std::string new_save_id() {
  std::random_device device;
  std::uniform_int_distribution<std::size_t> digit(0, digits.size() - 1);
  std::string id(form);
  for (char& letter : id)
    if (letter == 'x') letter = digits[digit(device)];
  return id;
}

bool is_save_id(std::string_view text) {
  if (text.size() != form.size()) return false;
  for (std::size_t i = 0; i < form.size(); ++i)
    if (form[i] == 'x' ? digits.find(text[i]) == std::string_view::npos : text[i] != form[i])
      return false;
  return true;
}

}  // namespace shampoo::checkpoint
