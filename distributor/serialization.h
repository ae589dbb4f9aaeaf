// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "distributor/communicator.h"

/// Structs that travel between ranks of one job, as bytes: fields one after the other, numbers in
/// the byte order of the host, texts and lists behind their length. Ranks run the same build, so
/// records have neither names nor versions.
///
/// A struct takes part with an overload next to it, found by argument-dependent lookup:
///
///   template <typename Visitor>
///   void for_each_field(Visitor&& visit, PeerInfo& info) {
///     visit("host", info.host);
///     visit("port", info.port);
///   }
namespace shampoo {

namespace serialization {

template <typename Value>
concept Scalar = std::is_arithmetic_v<Value> || std::is_enum_v<Value>;

class Writer {
 public:
  template <typename Value>
  void operator()(const char* /*name*/, Value& value) {
    write(value);
  }

  std::string bytes;

 private:
  template <Scalar Value>
  void write(const Value& value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void write(const std::string& text) {
    write(std::uint64_t{text.size()});
    bytes += text;
  }
  template <typename Element>
  void write(const std::vector<Element>& list) {
    write(std::uint64_t{list.size()});
    for (const Element& element : list) write(element);
  }
  template <typename Value>
  void write(const std::optional<Value>& value) {
    write(value.has_value());
    if (value) write(*value);
  }
  template <typename Struct>
  requires(!Scalar<Struct>) void write(const Struct& value) {
    for_each_field(*this, const_cast<Struct&>(value));
  }
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  template <typename Value>
  void operator()(const char* /*name*/, Value& value) {
    read(value);
  }

  bool at_end() const { return bytes_.empty(); }

 private:
  std::string_view take(std::uint64_t count) {
    if (count > bytes_.size()) throw CommunicationError("a record from another rank ends early");
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  std::uint64_t read_size() {
    std::uint64_t size = 0;
    read(size);
    // Every element takes at least one byte.
    if (size > bytes_.size()) throw CommunicationError("a record from another rank ends early");
    return size;
  }
  template <Scalar Value>
  void read(Value& value) {
    std::memcpy(&value, take(sizeof(value)).data(), sizeof(value));
  }
  void read(std::string& text) { text = take(read_size()); }
  template <typename Element>
  void read(std::vector<Element>& list) {
    list.resize(read_size());
    for (Element& element : list) read(element);
  }
  template <typename Value>
  void read(std::optional<Value>& value) {
    bool has_value = false;
    read(has_value);
    if (!has_value) return value.reset();
    read(value.emplace());
  }
  template <typename Struct>
  requires(!Scalar<Struct>) void read(Struct& value) { for_each_field(*this, value); }

  std::string_view bytes_;
};

}  // namespace serialization

template <typename Struct>
std::string serialize(const Struct& value) {
  serialization::Writer writer;
  writer("", const_cast<Struct&>(value));
  return std::move(writer.bytes);
}

/// Throws CommunicationError unless `bytes` are exactly one record.
template <typename Struct>
Struct deserialize(std::string_view bytes) {
  serialization::Reader reader(bytes);
  Struct value;
  reader("", value);
  if (!reader.at_end()) throw CommunicationError("a record from another rank has bytes left over");
  return value;
}

}  // namespace shampoo
