// SPDX-License-Identifier: Apache-2.0
#include "distributor/store/request_handler.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "distributor/system/hmac.h"

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

RequestHandler::RequestHandler(std::size_t most_bytes)
    : instance_(random_bytes(request_name_bytes)), values_(most_bytes) {}

bool RequestHandler::handle(const Client& client, const RequestReader& request,
                            std::string_view bytes, StoreProtocol protocol, std::string& reply) {
  const Call call{client, request, bytes, reply};
  switch (request.request()) {
    case Request::validate:
      return false;  // only as a connection's first request, which is not handled here
    case Request::set:
      return store(call, call.text(0), std::string(call.text(1)));
    case Request::compare_set:
      return compare_set(call);
    case Request::get:
      return get(call, protocol);
    case Request::add:
      return add(call);
    case Request::check:
      check(call);
      return true;
    case Request::wait:
    case Request::cancel_wait:
      return handle_wait(call);
    case Request::count_keys:
      append_number(reply, static_cast<std::int64_t>(values_.size()));
      return true;
    case Request::remove:
      append_number(reply, values_.remove(call.text(0)) ? 1 : 0);
      return true;
    case Request::append:
      return append(call);
    case Request::multi_get:
      return multi_get(call);
    case Request::multi_set:
      return multi_set(call);
    case Request::find:
      find(call);
      return true;
    case Request::add_once:
      return add_once(call);
    case Request::ping:
      reply.append(call.text(0));
      return true;
  }
  return false;
}

std::vector<ClientId> RequestHandler::take_woken() { return std::exchange(woken_, {}); }

bool RequestHandler::store(const Call& call, std::string_view key, std::string value) {
  woken_.reserve(woken_.size() + waiters_.count(key));  // or who waits would never know
  if (!values_.set(key, std::move(value), call.client.account)) return false;
  waiters_.wake(key, woken_);
  return true;
}

std::vector<std::string_view> RequestHandler::missing(const Call& call) const {
  std::vector<std::string_view> keys;
  for (std::size_t i = 0; i < call.request.fields(); ++i)
    if (!values_.find(call.text(i))) keys.push_back(call.text(i));
  return keys;
}

void RequestHandler::check(const Call& call) const {
  const bool asks_for_extension = call.request.fields() == 1 && call.text(0) == extension_key;
  call.reply.push_back(asks_for_extension || missing(call).empty() ? 0 : 1);
}

bool RequestHandler::handle_wait(const Call& call) {
  if (call.request.request() == Request::cancel_wait) {
    waiters_.remove(call.client.id);
    call.reply.push_back(1);
    return true;
  }
  const std::vector<std::string_view> keys = missing(call);
  if (!keys.empty()) return waiters_.add(call.client.id, keys);
  call.reply.push_back(0);
  return true;
}

bool RequestHandler::get(const Call& call, StoreProtocol protocol) const {
  if (protocol == StoreProtocol::torch_1 && !values_.find(call.text(0))) return false;
  return multi_get(call);
}

bool RequestHandler::multi_get(const Call& call) const {
  std::vector<std::string_view> values;
  std::size_t size = 0;
  for (std::size_t i = 0; i < call.request.fields(); ++i) {
    const std::string* value = values_.find(call.text(i));
    values.push_back(value ? std::string_view{*value} : std::string_view{});
    size += 8 + values.back().size();
  }
  if (size > most_message_bytes) return false;
  for (const std::string_view value : values) append_text(call.reply, value);
  return true;
}

void RequestHandler::find(const Call& call) const {
  const std::string* value =
      call.text(0) == extension_key ? &instance_ : values_.find(call.text(0));
  call.reply.push_back(value ? 1 : 0);
  if (value) append_text(call.reply, *value);
}

bool RequestHandler::multi_set(const Call& call) {
  for (std::size_t i = 0; i < call.request.fields(); i += 2)
    if (!store(call, call.text(i), std::string(call.text(i + 1)))) return false;
  return true;
}

bool RequestHandler::append(const Call& call) {
  const std::string* value = values_.find(call.text(0));
  std::string longer = value ? *value : std::string{};
  if (longer.size() + call.text(1).size() > most_message_bytes) return false;
  return store(call, call.text(0), longer.append(call.text(1)));
}

bool RequestHandler::compare_set(const Call& call) {
  const std::string_view key = call.text(0), expected = call.text(1), desired = call.text(2);
  const std::string* value = values_.find(key);
  const bool matches = value ? *value == expected : expected.empty();
  append_text(call.reply, matches ? desired : value ? std::string_view{*value} : expected);
  return !matches || store(call, key, std::string(desired));
}

/// Overflow wraps, as in torch.
bool RequestHandler::add(const Call& call) {
  const std::string* value = values_.find(call.text(0));
  const auto number = value ? leading_number(*value) : std::int64_t{0};
  if (!number) return false;
  const auto sum = static_cast<std::int64_t>(static_cast<std::uint64_t>(*number) +
                                             static_cast<std::uint64_t>(call.number(1)));
  append_number(call.reply, sum);
  return store(call, call.text(0), std::to_string(sum));
}

/// A client repeats a request soon: the sums of the last ones are enough.
bool RequestHandler::add_once(const Call& call) {
  constexpr std::size_t kept = 65'536;
  const std::string name(call.text(2));
  if (const auto known = sums_.find(name); known != sums_.end()) {
    append_number(call.reply, known->second);
    return true;
  }
  const std::size_t begin = call.reply.size();
  if (!add(call)) return false;
  const auto sum = read_number(std::string_view(call.reply).substr(begin));
  sums_.emplace(name, static_cast<std::int64_t>(sum));
  names_.push_back(name);
  if (names_.size() > kept) {
    sums_.erase(names_.front());
    names_.pop_front();
  }
  return true;
}

}  // namespace shampoo::store
