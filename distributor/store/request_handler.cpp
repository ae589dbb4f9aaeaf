// SPDX-License-Identifier: Apache-2.0
#include "distributor/store/request_handler.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

namespace shampoo::store {

namespace {

/// The number at the beginning of `value`, after optional blanks and a plus sign.
std::optional<std::int64_t> leading_number(std::string_view value) {
  value.remove_prefix(std::min(value.find_first_not_of(" \t\n\v\f\r"), value.size()));
  if (value.starts_with('+') && !value.starts_with("+-")) value.remove_prefix(1);
  std::int64_t number = 0;
  const auto read = std::from_chars(value.data(), value.data() + value.size(), number);
  if (read.ec != std::errc{}) return std::nullopt;
  return number;
}

}  // namespace

bool RequestHandler::handle(ClientId client, const RequestReader& request, std::string_view bytes,
                            StoreProtocol protocol, std::string& reply) {
  const Call call{request, bytes, reply};
  switch (request.request()) {
    case Request::validate:
      return false;  // only as a connection's first request, which is not handled here
    case Request::set:
      store(call.text(0), std::string(call.text(1)));
      return true;
    case Request::compare_set:
      compare_set(call);
      return true;
    case Request::get:
      return get(call, protocol);
    case Request::add:
      return add(call);
    case Request::check:
      reply.push_back(missing(call).empty() ? 0 : 1);
      return true;
    case Request::wait:
    case Request::cancel_wait:
      return handle_wait(client, call);
    case Request::count_keys:
      append_number(reply, static_cast<std::int64_t>(values_.size()));
      return true;
    case Request::remove:
      remove(call);
      return true;
    case Request::append:
      return append(call);
    case Request::multi_get:
      return multi_get(call);
    case Request::multi_set:
      for (std::size_t i = 0; i < request.fields(); i += 2)
        store(call.text(i), std::string(call.text(i + 1)));
      return true;
    case Request::ping:
      append_word(reply, read_word(call.text(0)));
      return true;
  }
  return false;
}

std::vector<ClientId> RequestHandler::take_woken() { return std::exchange(woken_, {}); }

const std::string* RequestHandler::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

void RequestHandler::store(std::string_view key, std::string value) {
  const auto found = values_.find(key);
  if (found == values_.end())
    values_.emplace(key, std::move(value));
  else
    found->second = std::move(value);
  for (const ClientId client : waiters_.wake(key)) woken_.push_back(client);
}

std::vector<std::string_view> RequestHandler::missing(const Call& call) const {
  std::vector<std::string_view> keys;
  for (std::size_t i = 0; i < call.request.fields(); ++i)
    if (!find(call.text(i))) keys.push_back(call.text(i));
  return keys;
}

bool RequestHandler::handle_wait(ClientId client, const Call& call) {
  if (call.request.request() == Request::cancel_wait) {
    waiters_.remove(client);
    call.reply.push_back(1);
    return true;
  }
  const std::vector<std::string_view> keys = missing(call);
  if (!keys.empty()) return waiters_.add(client, keys);
  call.reply.push_back(0);
  return true;
}

bool RequestHandler::get(const Call& call, StoreProtocol protocol) const {
  if (protocol == StoreProtocol::torch_1 && !find(call.text(0))) return false;
  return multi_get(call);
}

bool RequestHandler::multi_get(const Call& call) const {
  std::vector<std::string_view> values;
  std::size_t size = 0;
  for (std::size_t i = 0; i < call.request.fields(); ++i) {
    const std::string* value = find(call.text(i));
    values.push_back(value ? std::string_view{*value} : std::string_view{});
    size += 8 + values.back().size();
  }
  if (size > most_message_bytes) return false;
  for (const std::string_view value : values) append_text(call.reply, value);
  return true;
}

bool RequestHandler::append(const Call& call) {
  const std::string* value = find(call.text(0));
  std::string longer = value ? *value : std::string{};
  if (longer.size() + call.text(1).size() > most_message_bytes) return false;
  store(call.text(0), longer.append(call.text(1)));
  return true;
}

void RequestHandler::compare_set(const Call& call) {
  const std::string_view key = call.text(0), expected = call.text(1), desired = call.text(2);
  const std::string* value = find(key);
  const bool matches = value ? *value == expected : expected.empty();
  append_text(call.reply, matches ? desired : value ? std::string_view{*value} : expected);
  if (matches) store(key, std::string(desired));
}

/// Overflow wraps, as in torch.
bool RequestHandler::add(const Call& call) {
  const std::string* value = find(call.text(0));
  const auto number = value ? leading_number(*value) : std::int64_t{0};
  if (!number) return false;
  const auto sum = static_cast<std::int64_t>(static_cast<std::uint64_t>(*number) +
                                             static_cast<std::uint64_t>(call.number(1)));
  append_number(call.reply, sum);
  store(call.text(0), std::to_string(sum));
  return true;
}

void RequestHandler::remove(const Call& call) {
  const auto found = values_.find(call.text(0));
  append_number(call.reply, found == values_.end() ? 0 : 1);
  if (found != values_.end()) values_.erase(found);
}

}  // namespace shampoo::store
