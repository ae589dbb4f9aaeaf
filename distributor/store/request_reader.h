// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "distributor/store/wire.h"

namespace shampoo::store {

/// Incremental parser of one request; looks at each byte once. Allocates for bytes received, not
/// for announced lengths.
class RequestReader {
 public:
  enum class State : std::uint8_t { incomplete, complete, refused };

  /// `bytes` starts with the request, and with all bytes of the previous call.
  State read(std::string_view bytes, StoreProtocol protocol);
  /// Starts the next request.
  void restart();

  /// For a complete request only. Fields are in the order of the request, without counts.
  Request request() const { return request_; }
  std::size_t fields() const { return fields_.size(); }
  std::string_view text(std::string_view bytes, std::size_t field) const;
  std::int64_t number(std::string_view bytes, std::size_t field) const;
  std::size_t end() const { return end_; }

  std::size_t memory() const { return fields_.capacity() * sizeof(Field); }

 private:
  struct Field {
    std::size_t begin = 0, size = 0;
  };
  State read_number_of_request(std::string_view bytes, StoreProtocol protocol);
  State read_count(std::string_view bytes);
  State read_field(std::string_view bytes, char kind);

  bool begun_ = false, counted_ = false;
  Request request_ = Request::validate;
  std::string_view kinds_;
  std::size_t expected_ = 0;  ///< fields
  std::size_t end_ = 0;       ///< position after the last complete field
  std::vector<Field> fields_;
};

}  // namespace shampoo::store
