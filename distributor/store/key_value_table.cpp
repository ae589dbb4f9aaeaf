// SPDX-License-Identifier: Apache-2.0
#include "distributor/store/key_value_table.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace shampoo::store {

namespace {

/// About what an entry needs besides its characters: nodes and blocks of the allocator.
constexpr std::size_t entry_bytes = 160;
constexpr std::size_t queue_bytes = 800;

/// The number that a value begins with, blanks and a plus sign before it allowed.
std::optional<std::int64_t> leading_number(std::string_view value) {
  value.remove_prefix(std::min(value.find_first_not_of(" \t\n\v\f\r"), value.size()));
  if (value.starts_with('+') && !value.starts_with("+-")) value.remove_prefix(1);
  std::int64_t number = 0;
  const auto read = std::from_chars(value.data(), value.data() + value.size(), number);
  if (read.ec != std::errc{}) return std::nullopt;
  return number;
}

}  // namespace

const std::string* Table::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

bool Table::has(std::string_view key) const { return find(key) || queue_length(key) > 0; }

std::size_t Table::queue_length(std::string_view key) const {
  const auto found = queues_.find(key);
  return found == queues_.end() ? 0 : found->second.size();
}

bool Table::set(std::string_view key, std::string_view value) {
  const auto found = values_.find(key);
  if (found == values_.end()) {
    if (!reserve(entry_bytes + key.size() + value.size())) return false;
    values_.emplace(key, value);
    return true;
  }
  const std::size_t before = found->second.size();
  if (value.size() > before && !reserve(value.size() - before)) return false;
  if (value.size() < before) bytes_ -= before - value.size();
  found->second = std::string(value);
  return true;
}

bool Table::append(std::string_view key, std::string_view value) {
  const auto found = values_.find(key);
  if (found == values_.end()) return set(key, value);
  if (!reserve(value.size())) return false;
  found->second.append(value);
  return true;
}

bool Table::push(std::string_view key, std::string_view value) {
  auto found = queues_.find(key);
  const std::size_t new_queue = found == queues_.end() ? queue_bytes + key.size() : 0;
  if (!reserve(new_queue + entry_bytes + value.size())) return false;
  if (new_queue > 0) found = queues_.emplace(key, std::deque<std::string>{}).first;
  found->second.emplace_back(value);
  return true;
}

std::optional<std::int64_t> Table::add(std::string_view key, std::int64_t amount) {
  const std::string* value = find(key);
  const auto number = value ? leading_number(*value) : std::int64_t{0};
  if (!number) return std::nullopt;
  const auto sum = static_cast<std::int64_t>(static_cast<std::uint64_t>(*number) +
                                             static_cast<std::uint64_t>(amount));
  if (!set(key, std::to_string(sum))) return std::nullopt;
  return sum;
}

bool Table::remove(std::string_view key) {
  const auto found = values_.find(key);
  if (found == values_.end()) return false;
  bytes_ -= entry_bytes + found->first.size() + found->second.size();
  values_.erase(found);
  return true;
}

std::optional<std::string> Table::pop(std::string_view key) {
  const auto found = queues_.find(key);
  if (found == queues_.end()) return std::nullopt;
  std::string value = std::move(found->second.front());
  found->second.pop_front();
  bytes_ -= entry_bytes + value.size();
  if (found->second.empty()) {
    bytes_ -= queue_bytes + found->first.size();
    queues_.erase(found);
  }
  return value;
}

void Table::remove_except(std::string_view prefix) {
  std::erase_if(values_, [&](const auto& entry) {
    const auto& [key, value] = entry;
    if (key.starts_with(prefix)) return false;
    bytes_ -= entry_bytes + key.size() + value.size();
    return true;
  });
  std::erase_if(queues_, [&](const auto& entry) {
    const auto& [key, queue] = entry;
    if (key.starts_with(prefix)) return false;
    bytes_ -= queue_bytes + key.size();
    for (const std::string& value : queue) bytes_ -= entry_bytes + value.size();
    return true;
  });
}

bool Table::reserve(std::size_t bytes) {
  if (bytes > most_bytes_ - bytes_) return false;
  bytes_ += bytes;
  return true;
}

}  // namespace shampoo::store
