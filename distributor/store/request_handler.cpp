// SPDX-License-Identifier: Apache-2.0
#include "distributor/store/request_handler.h"

#include <utility>

namespace shampoo::store {

namespace {

/// Where those wait who wait for a key, and those at a barrier.
std::string key_place(std::string_view key) { return "k" + std::string(key); }
std::string barrier_place(std::string_view key) { return "b" + std::string(key); }

}  // namespace

bool Service::answer(ClientId client, const RequestReader& request, std::string_view bytes,
                     StoreProtocol protocol, std::string& reply) {
  const Call call{client, request, bytes, reply};
  switch (request.request()) {
    case Request::validate:
      return false;  // only a connection's first request, which does not come here
    case Request::count_keys:
      append_number(reply, static_cast<std::int64_t>(table_.values().size()));
      return true;
    case Request::cancel_wait:
      waiters_.remove(client);
      reply.push_back(1);
      return true;
    case Request::ping:
      append_word(reply, read_word(call.text(0)));
      return true;
    case Request::list_keys:
      return list_keys(call);
    default:
      return answer_texts(call, protocol);
  }
}

bool Service::answer_texts(const Call& call, StoreProtocol protocol) {
  switch (call.request.request()) {
    case Request::set:
      return stored(table_.set(call.text(0), call.text(1)), call.text(0));
    case Request::append:
      return stored(table_.append(call.text(0), call.text(1)), call.text(0));
    case Request::remove:
      append_number(call.reply, table_.remove(call.text(0)));
      return true;
    case Request::queue_length:
      append_number(call.reply, static_cast<std::int64_t>(table_.queue_length(call.text(0))));
      return true;
    case Request::get:
      return get(call, protocol);
    case Request::multi_get:
      return multi_get(call);
    case Request::multi_set:
      return multi_set(call);
    case Request::compare_set:
      return compare_set(call);
    case Request::add:
      return add(call);
    case Request::check:
      return check(call);
    case Request::wait:
      return wait(call);
    case Request::barrier:
      return barrier(call);
    case Request::queue_push:
      return queue_push(call);
    case Request::queue_pop:
      return queue_pop(call);
    default:
      return false;
  }
}

std::vector<ClientId> Service::take_woken() { return std::exchange(woken_, {}); }

bool Service::get(const Call& call, StoreProtocol protocol) {
  const std::string* value = table_.find(call.text(0));
  if (!value && protocol == StoreProtocol::torch_1) return false;
  if (value && value->size() > most_reply_bytes_) return false;
  append_text(call.reply, value ? *value : std::string_view{});
  return true;
}

bool Service::multi_get(const Call& call) {
  std::size_t left = most_reply_bytes_;
  for (std::size_t i = 0; i < call.request.fields(); ++i) {
    const std::string* value = table_.find(call.text(i));
    const std::size_t needed = 8 + (value ? value->size() : 0);
    if (needed > left) return false;
    left -= needed;
    append_text(call.reply, value ? *value : std::string_view{});
  }
  return true;
}

bool Service::multi_set(const Call& call) {
  for (std::size_t i = 0; i < call.request.fields(); i += 2)
    if (!stored(table_.set(call.text(i), call.text(i + 1)), call.text(i))) return false;
  return true;
}

bool Service::compare_set(const Call& call) {
  const std::string_view key = call.text(0), expected = call.text(1), desired = call.text(2);
  const std::string* value = table_.find(key);
  if (value ? *value != expected : !expected.empty()) {
    append_text(call.reply, value ? std::string_view{*value} : expected);
    return true;
  }
  append_text(call.reply, desired);
  return stored(table_.set(key, desired), key);
}

bool Service::add(const Call& call) {
  const auto sum = table_.add(call.text(0), call.number(1));
  if (sum) append_number(call.reply, *sum);
  return stored(sum.has_value(), call.text(0));
}

bool Service::check(const Call& call) {
  bool all = true;
  for (std::size_t i = 0; i < call.request.fields(); ++i) all = all && table_.has(call.text(i));
  call.reply.push_back(all ? 0 : 1);
  return true;
}

bool Service::wait(const Call& call) {
  std::vector<std::string> places;
  for (std::size_t i = 0; i < call.request.fields(); ++i)
    if (!table_.has(call.text(i))) places.push_back(key_place(call.text(i)));
  if (!places.empty()) return waiters_.add(call.client, {places.begin(), places.end()});
  call.reply.push_back(0);
  return true;
}

bool Service::barrier(const Call& call) {
  const std::string_view key = call.text(0);
  const auto arrived = table_.add(key, 1);
  if (!stored(arrived.has_value(), key)) return false;
  const std::string place = barrier_place(key);
  if (*arrived < call.number(1)) return waiters_.add(call.client, {place});
  wake(place);
  call.reply.push_back(0);
  return true;
}

bool Service::queue_push(const Call& call) {
  if (!table_.push(call.text(0), call.text(1))) return false;
  if (const auto client = waiters_.wake_one(key_place(call.text(0)))) woken_.push_back(*client);
  return true;
}

bool Service::queue_pop(const Call& call) {
  append_number(call.reply, static_cast<std::int64_t>(table_.queue_length(call.text(0))));
  if (const auto value = table_.pop(call.text(0))) append_text(call.reply, *value);
  return true;
}

bool Service::list_keys(const Call& call) {
  std::size_t bytes = 8;
  for (const auto& [key, value] : table_.values()) bytes += 8 + key.size();
  if (bytes > most_reply_bytes_) return false;
  append_number(call.reply, static_cast<std::int64_t>(table_.values().size()));
  for (const auto& [key, value] : table_.values()) append_text(call.reply, key);
  return true;
}

bool Service::stored(bool done, std::string_view key) {
  if (done) wake(key_place(key));
  return done;
}

void Service::wake(const std::string& place) {
  for (const ClientId client : waiters_.wake(place)) woken_.push_back(client);
}

}  // namespace shampoo::store
