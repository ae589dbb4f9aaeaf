// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/format/json_rows.h"

#include <algorithm>
#include <utility>

#include "shampoo/checkpoint/format/json_fields.h"
#include "shampoo/checkpoint/format/tensor_entry.h"

namespace shampoo::checkpoint {
namespace {

/// Takes the events of a JSON parser and builds one value at a time.
class MemberParser : public nlohmann::json_sax<Json> {
 public:
  explicit MemberParser(const std::vector<JsonMember>& members)
      : found(members.size()), members_(members) {}

  bool null() override { return add(nullptr, 1); }
  bool boolean(bool value) override { return add(value, 1); }
  bool number_integer(number_integer_t value) override { return add(value, 1); }
  bool number_unsigned(number_unsigned_t value) override { return add(value, 1); }
  bool number_float(number_float_t value, const string_t&) override { return add(value, 1); }
  bool binary(binary_t&) override { refuse("no JSON: bytes"); }
  bool string(string_t& value) override {
    const std::size_t units = text_units(value);
    return add(std::move(value), units);
  }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& key) override;
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception& error) override {
    refuse("no JSON at byte " + std::to_string(position) + ": " + in_quotes(error.what()));
  }

  std::vector<bool> found;

 private:
  bool in_rows() const { return member_ && member_->form == JsonMember::Form::rows; }
  /// The level at which values are handed out.
  std::size_t level() const { return in_rows() ? 2 : 1; }
  void charge(std::size_t units);
  Json* place(Json&& value);
  bool add(Json value, std::size_t units);
  bool open(Json value);
  bool close();
  void hand_out();

  const std::vector<JsonMember>& members_;
  const JsonMember* member_ = nullptr;  ///< null: skipped
  std::size_t depth_ = 0;               ///< open objects and lists
  std::size_t rows_ = 0, units_ = 0;
  Json value_;               ///< under construction
  std::vector<Json*> open_;  ///< in it
  std::string key_;
};

bool MemberParser::key(string_t& key) {
  if (depth_ == 1) {
    const auto known = std::ranges::find(members_, std::string_view(key), &JsonMember::name);
    member_ = known == members_.end() ? nullptr : &*known;
    rows_ = units_ = 0;
    if (!member_) return true;
    const auto index = static_cast<std::size_t>(known - members_.begin());
    if (found[index]) refuse("the field " + in_quotes(key) + " occurs twice");
    found[index] = true;
  } else if (member_ && !open_.empty()) {
    charge(text_units(key) + units_of_field);
    if (open_.back()->contains(key)) refuse("the field " + in_quotes(key) + " occurs twice");
    key_ = std::move(key);
  }
  return true;
}

void MemberParser::charge(std::size_t units) {
  units_ += units;
  if (units_ > member_->most_units)
    refuse(std::string(member_->name) + ": an element is too large");
}

/// Where a value lies in the one under construction.
Json* MemberParser::place(Json&& value) {
  if (depth_ == level()) return &(value_ = std::move(value));
  Json& parent = *open_.back();
  if (parent.is_object()) return &(parent[key_] = std::move(value));
  parent.push_back(std::move(value));
  return &parent.back();
}

bool MemberParser::add(Json value, std::size_t units) {
  if (depth_ == 0) refuse("must be an object");
  if (!member_) return true;
  if (in_rows() && depth_ == 1) refuse(std::string(member_->name) + ": must be a list");
  charge(units);
  place(std::move(value));
  if (depth_ == level()) hand_out();
  return true;
}

bool MemberParser::open(Json value) {
  constexpr std::size_t deepest = 6;
  if (depth_ == 0 && !value.is_object()) refuse("must be an object");
  if (member_ && in_rows() && depth_ == 1) {
    if (!value.is_array()) refuse(std::string(member_->name) + ": must be a list");
  } else if (member_ && depth_ > 0) {
    if (depth_ >= level() + deepest) refuse(std::string(member_->name) + ": nested too deeply");
    charge(units_of_list);
    open_.push_back(place(std::move(value)));
  }
  ++depth_;
  return true;
}

bool MemberParser::close() {
  --depth_;
  if (!member_ || open_.empty()) return true;
  open_.pop_back();
  if (open_.empty()) hand_out();
  return true;
}

void MemberParser::hand_out() {
  if (++rows_ > member_->most_rows)
    refuse(std::string(member_->name) + ": more than " + std::to_string(member_->most_rows) +
           " elements");
  member_->take(value_);
  value_ = nullptr;
  units_ = 0;
}

}  // namespace

std::vector<bool> parse_members(std::string_view text, const std::vector<JsonMember>& members) {
  // JSON parsers take it for the end of the text.
  if (const std::size_t at = text.find('\0'); at != text.npos)
    refuse("a NUL byte at byte " + std::to_string(at));
  MemberParser parser(members);
  nlohmann::json::sax_parse(text.begin(), text.end(), &parser);
  return std::move(parser.found);
}

}  // namespace shampoo::checkpoint
