// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/format/safetensors_header.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "shampoo/checkpoint_directory.h"

namespace shampoo::checkpoint {
namespace {

// Far beyond what any library computes with.
constexpr std::size_t most_sides = 1024;

/// Takes the events of a JSON parser, each where it is allowed, and collects the tensors.
class HeaderParser : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderParser(std::uint64_t data_bytes) : data_bytes_(data_bytes) {}

  bool null() override { refuse("null"); }
  bool boolean(bool) override { refuse("a boolean"); }
  bool number_integer(nlohmann::json::number_integer_t) override { refuse("a negative number"); }
  bool number_float(nlohmann::json::number_float_t, const std::string&) override {
    refuse("a number that is no whole number below 2^64");
  }
  bool binary(nlohmann::json::binary_t&) override { refuse("bytes"); }
  bool start_object(std::size_t) override;
  bool end_object() override;
  bool start_array(std::size_t) override;
  bool end_array() override;
  bool key(std::string& key) override;
  bool string(std::string& value) override;
  bool number_unsigned(nlohmann::json::number_unsigned_t number) override;
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception& error) override {
    throw CheckpointError("the header is no JSON at byte " +
                          std::to_string(header_begin + position) + ": " + in_quotes(error.what()));
  }

  SafetensorsHeader header;

 private:
  enum class Within : std::uint8_t { nothing, header, metadata, tensor, shape, offsets };
  enum Field : unsigned { dtype = 1, shape = 2, offsets = 4, all_fields = 7 };

  [[noreturn]] void refuse(const std::string& what) const;
  void begin_field(Field field);
  void finish_tensor();

  std::uint64_t data_bytes_;
  Within within_ = Within::nothing;
  bool has_metadata_ = false;
  std::string key_;
  TensorEntry tensor_;
  unsigned fields_ = 0;
  int offset_count_ = 0;
};

void HeaderParser::refuse(const std::string& what) const {
  const bool in_tensor = within_ >= Within::tensor;
  throw CheckpointError((in_tensor ? "tensor " + in_quotes(tensor_.name) + ": " : "header: ") +
                        what + " is not allowed here");
}

bool HeaderParser::start_object(std::size_t) {
  if (within_ == Within::nothing) {
    within_ = Within::header;
  } else if (within_ == Within::header && key_ == metadata_key) {
    if (has_metadata_) refuse("a second __metadata__");
    has_metadata_ = true;
    within_ = Within::metadata;
  } else if (within_ == Within::header) {
    tensor_ = {.name = key_, .dtype = Dtype::f32, .shape = {}, .begin = 0, .end = 0};
    fields_ = 0;
    within_ = Within::tensor;
  } else {
    refuse("an object");
  }
  return true;
}

bool HeaderParser::end_object() {
  if (within_ == Within::tensor) finish_tensor();
  within_ = within_ == Within::header ? Within::nothing : Within::header;
  return true;
}

bool HeaderParser::key(std::string& key) {
  key_ = std::move(key);
  if (within_ == Within::tensor && key_ != "dtype" && key_ != "shape" && key_ != "data_offsets")
    refuse("the field " + in_quotes(key_));
  return true;
}

void HeaderParser::begin_field(Field field) {
  if ((fields_ & field) != 0) refuse("a second " + key_);
  fields_ |= field;
}

bool HeaderParser::string(std::string& value) {
  if (within_ == Within::metadata) {
    if (!header.metadata.emplace(key_, std::move(value)).second)
      refuse("a second " + in_quotes(key_) + " in __metadata__");
    return true;
  }
  if (within_ != Within::tensor || key_ != "dtype") refuse("a string");
  begin_field(dtype);
  const auto known = dtype_named(value);
  if (!known) refuse("the dtype " + in_quotes(value));
  tensor_.dtype = *known;
  return true;
}

bool HeaderParser::start_array(std::size_t) {
  if (within_ != Within::tensor || key_ == "dtype") refuse("a list");
  begin_field(key_ == "shape" ? shape : offsets);
  within_ = key_ == "shape" ? Within::shape : Within::offsets;
  offset_count_ = 0;
  return true;
}

bool HeaderParser::end_array() {
  if (within_ == Within::offsets && offset_count_ != 2) refuse("data_offsets of one number");
  within_ = Within::tensor;
  return true;
}

bool HeaderParser::number_unsigned(nlohmann::json::number_unsigned_t number) {
  if (within_ == Within::shape) {
    if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      refuse("a dimension of " + std::to_string(number));
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

void HeaderParser::finish_tensor() {
  if (fields_ != all_fields) refuse("a tensor without dtype, shape and data_offsets");
  const std::string range =
      "data_offsets [" + std::to_string(tensor_.begin) + ", " + std::to_string(tensor_.end) + "]";
  if (tensor_.begin > tensor_.end || tensor_.end > data_bytes_)
    refuse(range + " in " + std::to_string(data_bytes_) + " bytes of data");
  const auto bytes = bytes_of(tensor_.dtype, tensor_.shape);
  if (!bytes) refuse("a shape whose size is no number of bytes below 2^61");
  if (*bytes != tensor_.end - tensor_.begin)
    refuse(range + " for dtype and shape of " + std::to_string(*bytes) + " bytes");
  header.tensors.push_back(std::move(tensor_));
}

/// Of tensors in the order of their data.
void require_cover(const std::vector<TensorEntry>& tensors, std::uint64_t data_bytes) {
  std::uint64_t covered = 0;
  for (const TensorEntry& tensor : tensors) {
    if (tensor.begin != covered)
      throw CheckpointError("tensor " + in_quotes(tensor.name) + " begins at byte " +
                            std::to_string(tensor.begin) + " of the data, where byte " +
                            std::to_string(covered) + " is next");
    covered = tensor.end;
  }
  if (covered != data_bytes)
    throw CheckpointError("the tensors end at byte " + std::to_string(covered) +
                          " of the data, which has " + std::to_string(data_bytes) + " bytes");
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view text, std::uint64_t data_bytes) {
  if (!text.starts_with('{')) throw CheckpointError("the header does not begin with '{'");
  // JSON parsers take it for the end of the text.
  if (const std::size_t at = text.find('\0'); at != text.npos)
    throw CheckpointError("a NUL byte in the header at byte " + std::to_string(header_begin + at));
  HeaderParser parser(data_bytes);
  nlohmann::json::sax_parse(text.begin(), text.end(), &parser);
  std::vector<TensorEntry>& tensors = parser.header.tensors;
  std::ranges::sort(tensors, {},
                    [](const TensorEntry& tensor) { return std::tie(tensor.begin, tensor.end); });
  require_cover(tensors, data_bytes);
  return std::move(parser.header);
}

}  // namespace shampoo::checkpoint
