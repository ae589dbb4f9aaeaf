// SPDX-License-Identifier: Apache-2.0
#include "distributor/store/request_reader.h"

namespace shampoo::store {

namespace {

/// Kinds of fields: k: key, v: value, 4 and 8: number of that many bytes, n: name of a request.
struct Layout {
  bool counted = false;  ///< starts with the number of repetitions
  std::string_view kinds;
};

Layout layout_of(Request request) {
  switch (request) {
    case Request::validate:
    case Request::ping:
      return {false, "4"};
    case Request::set:
    case Request::append:
      return {false, "kv"};
    case Request::compare_set:
      return {false, "kvv"};
    case Request::get:
    case Request::remove:
    case Request::find:
      return {false, "k"};
    case Request::add:
      return {false, "k8"};
    case Request::add_once:
      return {false, "k8n"};
    case Request::check:
    case Request::wait:
    case Request::multi_get:
      return {true, "k"};
    case Request::multi_set:
      return {true, "kv"};
    case Request::count_keys:
    case Request::cancel_wait:
      break;
  }
  return {false, ""};
}

}  // namespace

RequestReader::State RequestReader::read(std::string_view bytes, StoreProtocol protocol) {
  if (!begun_) {
    const State begun = read_number_of_request(bytes, protocol);
    if (begun != State::complete) return begun;
  }
  if (counted_) {
    const State counted = read_count(bytes);
    if (counted != State::complete) return counted;
  }
  while (fields_.size() < expected_) {
    const State field = read_field(bytes, kinds_[fields_.size() % kinds_.size()]);
    if (field != State::complete) return field;
  }
  return State::complete;
}

void RequestReader::restart() {
  constexpr std::size_t kept = 64;
  begun_ = counted_ = false;
  expected_ = end_ = 0;
  fields_.clear();
  if (fields_.capacity() > kept) fields_.shrink_to_fit();
}

std::string_view RequestReader::text(std::string_view bytes, std::size_t field) const {
  return bytes.substr(fields_[field].begin, fields_[field].size);
}

std::int64_t RequestReader::number(std::string_view bytes, std::size_t field) const {
  return static_cast<std::int64_t>(read_number(text(bytes, field)));
}

RequestReader::State RequestReader::read_number_of_request(std::string_view bytes,
                                                           StoreProtocol protocol) {
  if (bytes.empty()) return State::incomplete;
  const auto request = request_of(static_cast<std::uint8_t>(bytes[0]), protocol);
  if (!request) return State::refused;
  const Layout layout = layout_of(*request);
  begun_ = true;
  request_ = *request;
  counted_ = layout.counted;
  kinds_ = layout.kinds;
  expected_ = counted_ ? 0 : kinds_.size();
  end_ = 1;
  return State::complete;
}

RequestReader::State RequestReader::read_count(std::string_view bytes) {
  if (bytes.size() < end_ + 8) return State::incomplete;
  const std::uint64_t count = read_number(bytes.substr(end_));
  if (count > most_keys) return State::refused;
  expected_ = count * kinds_.size();
  counted_ = false;
  end_ += 8;
  return State::complete;
}

RequestReader::State RequestReader::read_field(std::string_view bytes, char kind) {
  Field field{end_, kind == '4' ? std::size_t{4} : std::size_t{8}};
  if (kind == 'n') field.size = request_name_bytes;
  if (kind == 'k' || kind == 'v') {
    if (bytes.size() < end_ + 8) return State::incomplete;
    const std::uint64_t size = read_number(bytes.substr(end_));
    if (size > (kind == 'k' ? most_key_bytes : most_value_bytes)) return State::refused;
    field = {end_ + 8, size};
  }
  if (field.begin + field.size > most_message_bytes) return State::refused;
  if (bytes.size() < field.begin + field.size) return State::incomplete;
  fields_.push_back(field);
  end_ = field.begin + field.size;
  return State::complete;
}

}  // namespace shampoo::store
