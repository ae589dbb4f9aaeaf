// SPDX-License-Identifier: Apache-2.0
#include "distributor/store/wire.h"

#include <array>
#include <stdexcept>

namespace shampoo::store {

namespace {

constexpr std::array<std::optional<Request>, 9> torch_1_requests{
    Request::set,  Request::compare_set, Request::get, Request::add,   Request::check,
    Request::wait, Request::count_keys,  std::nullopt, Request::remove};

std::uint8_t number_of(Request request, StoreProtocol protocol) {
  if (protocol == StoreProtocol::torch_2) return static_cast<std::uint8_t>(request);
  for (std::size_t number = 0; number < torch_1_requests.size(); ++number)
    if (torch_1_requests[number] == request) return static_cast<std::uint8_t>(number);
  throw std::invalid_argument("store: releases of torch up to 1.13 have no such request");
}

}  // namespace

std::optional<Request> request_of(std::uint8_t number, StoreProtocol protocol) {
  if (protocol == StoreProtocol::torch_2) {
    const auto request = static_cast<Request>(number);
    const bool is_known =
        request <= Request::ping || request == Request::find || request == Request::add_once;
    return is_known ? std::optional(request) : std::nullopt;
  }
  if (number >= torch_1_requests.size()) return std::nullopt;
  return torch_1_requests[number];
}

Message::Message(Request request, StoreProtocol protocol) { byte(number_of(request, protocol)); }

Message& Message::byte(std::uint8_t value) {
  bytes_.push_back(static_cast<char>(value));
  return *this;
}

Message& Message::number(std::int64_t value) {
  append_number(bytes_, value);
  return *this;
}

Message& Message::text(std::string_view value) {
  append_text(bytes_, value);
  return *this;
}

Message& Message::texts(std::span<const std::string> values) {
  number(static_cast<std::int64_t>(values.size()));
  for (const std::string& value : values) text(value);
  return *this;
}

Message& Message::raw(std::string_view bytes) {
  bytes_.append(bytes);
  return *this;
}

void append_number(std::string& bytes, std::int64_t value) {
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(value >> (8 * i) & 0xFF));
}

void append_text(std::string& bytes, std::string_view value) {
  append_number(bytes, static_cast<std::int64_t>(value.size()));
  bytes.append(value);
}

std::uint64_t read_number(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < 8; ++i)
    value |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return value;
}

}  // namespace shampoo::store
