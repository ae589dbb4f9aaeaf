// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/format/safetensors_header_parser.h"

#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "shampoo/checkpoint/format/safetensors_header_stream.h"
#include "shampoo/checkpoint_error.h"

namespace shampoo::checkpoint {
namespace {

using Json = nlohmann::json;

// Far beyond what any library computes with.
constexpr std::size_t most_sides = 1024;

/// Takes the events of a JSON reader, each where it is allowed, and collects the tensors.
class HeaderEvents : public nlohmann::json_sax<Json> {
 public:
  HeaderEvents(Header& header, const HeaderText& text, std::uint64_t data_bytes)
      : header_(header), text_(text), data_bytes_(data_bytes) {}

  bool null() override { refuse("null"); }
  bool boolean(bool) override { refuse("a truth value"); }
  bool number_integer(Json::number_integer_t) override { refuse("a negative number"); }
  bool number_float(Json::number_float_t, const std::string&) override {
    refuse("a number that is no whole number below 2^64");
  }
  bool binary(Json::binary_t&) override { refuse("bytes"); }
  bool start_object(std::size_t) override;
  bool end_object() override;
  bool start_array(std::size_t) override;
  bool end_array() override;
  bool key(std::string& key) override;
  bool string(std::string& value) override;
  bool number_unsigned(Json::number_unsigned_t number) override;
  bool parse_error(std::size_t, const std::string&, const Json::exception& error) override;

 private:
  enum class Within : std::uint8_t { nothing, header, metadata, tensor, shape, offsets };
  enum Field : unsigned { dtype = 1, shape = 2, offsets = 4, all_fields = 7 };

  [[noreturn]] void refuse(const std::string& what) const;
  void begin_field(Field field);
  void finish_tensor();

  Header& header_;
  const HeaderText& text_;
  std::uint64_t data_bytes_;
  Within within_ = Within::nothing;
  bool has_metadata_ = false;
  std::string key_;
  TensorEntry tensor_;
  unsigned fields_ = 0;
  int offset_count_ = 0;
};

void HeaderEvents::refuse(const std::string& what) const {
  const bool in_tensor = within_ >= Within::tensor;
  throw CheckpointError((in_tensor ? "tensor " + in_quotes(tensor_.name) + ": " : "header: ") +
                        what + " is not allowed here, before byte " +
                        std::to_string(text_.position()));
}

bool HeaderEvents::start_object(std::size_t) {
  if (within_ == Within::nothing) {
    within_ = Within::header;
  } else if (within_ == Within::header && key_ == metadata_key) {
    if (has_metadata_) refuse("a second __metadata__");
    has_metadata_ = true;
    within_ = Within::metadata;
  } else if (within_ == Within::header) {
    tensor_ = {};
    tensor_.name = key_;
    fields_ = 0;
    within_ = Within::tensor;
  } else {
    refuse("an object");
  }
  return true;
}

bool HeaderEvents::end_object() {
  if (within_ == Within::tensor) finish_tensor();
  within_ = within_ == Within::header ? Within::nothing : Within::header;
  return true;
}

bool HeaderEvents::key(std::string& key) {
  key_ = key;
  if (within_ == Within::tensor && key != "dtype" && key != "shape" && key != "data_offsets")
    refuse("the field " + in_quotes(key));
  return true;
}

void HeaderEvents::begin_field(Field field) {
  if ((fields_ & field) != 0) refuse("a second " + key_);
  fields_ |= field;
}

bool HeaderEvents::string(std::string& value) {
  if (within_ == Within::metadata) {
    header_.add_metadata(key_, value);
    return true;
  }
  if (within_ != Within::tensor || key_ != "dtype") refuse("a text");
  begin_field(dtype);
  const auto known = dtype_named(value);
  if (!known) refuse("the dtype " + in_quotes(value));
  tensor_.dtype = *known;
  return true;
}

bool HeaderEvents::start_array(std::size_t) {
  if (within_ != Within::tensor || key_ == "dtype") refuse("a list");
  begin_field(key_ == "shape" ? shape : offsets);
  within_ = key_ == "shape" ? Within::shape : Within::offsets;
  offset_count_ = 0;
  return true;
}

bool HeaderEvents::end_array() {
  if (within_ == Within::offsets && offset_count_ != 2) refuse("data_offsets of one number");
  within_ = Within::tensor;
  return true;
}

bool HeaderEvents::number_unsigned(Json::number_unsigned_t number) {
  if (within_ == Within::shape) {
    if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      refuse("a side of " + std::to_string(number));
    if (tensor_.shape.size() == most_sides)
      refuse("a shape of more than " + std::to_string(most_sides) + " sides");
    tensor_.shape.push_back(static_cast<std::int64_t>(number));
  } else if (within_ == Within::offsets && offset_count_ < 2) {
    (offset_count_++ == 0 ? tensor_.begin : tensor_.end) = number;
  } else {
    refuse("the number " + std::to_string(number));
  }
  return true;
}

void HeaderEvents::finish_tensor() {
  if (fields_ != all_fields) refuse("a tensor without dtype, shape and data_offsets");
  const std::string range =
      "data_offsets [" + std::to_string(tensor_.begin) + ", " + std::to_string(tensor_.end) + "]";
  if (tensor_.begin > tensor_.end || tensor_.end > data_bytes_)
    refuse(range + " in " + std::to_string(data_bytes_) + " bytes of data");
  const auto bytes = bytes_of(tensor_.dtype, tensor_.shape);
  if (!bytes) refuse("a shape whose size is no number of bytes below 2^61");
  if (*bytes != tensor_.end - tensor_.begin)
    refuse(range + " for dtype and shape of " + std::to_string(*bytes) + " bytes");
  header_.add(tensor_);
}

bool HeaderEvents::parse_error(std::size_t, const std::string&, const Json::exception& error) {
  throw CheckpointError("the header is no JSON before byte " + std::to_string(text_.position()) +
                        ": " + in_quotes(error.what()));
}

}  // namespace

ReadHeader read_header(const File& file) {
  const std::uint64_t bytes = file.size();
  if (bytes < header_begin)
    throw CheckpointError("has " + std::to_string(bytes) + " bytes; the shortest file has " +
                          std::to_string(header_begin));
  std::array<std::byte, header_begin> prefix{};
  file.read(0, prefix);
  std::uint64_t length = 0;
  for (std::size_t i = prefix.size(); i-- > 0;)
    length = length << 8 | std::to_integer<std::uint64_t>(prefix[i]);
  if (length > most_header_bytes)
    throw CheckpointError("announces a header of " + std::to_string(length) + " bytes; at most " +
                          std::to_string(most_header_bytes) + " are allowed");
  if (length > bytes - header_begin)
    throw CheckpointError("announces a header of " + std::to_string(length) + " bytes, but has " +
                          std::to_string(bytes - header_begin) + " after byte 8");

  ReadHeader read;
  read.data_begin = header_begin + length;
  HeaderText text(file, read.data_begin, prefix);
  HeaderEvents events(read.header, text, bytes - read.data_begin);
  Json::sax_parse(HeaderCursor(text), HeaderCursor(), &events);
  read.header.seal(bytes - read.data_begin);
  read.checksum = text.checksum();
  return read;
}

}  // namespace shampoo::checkpoint
