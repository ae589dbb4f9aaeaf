// SPDX-License-Identifier: Apache-2.0
#include "shampoo/state/state_serialization.h"

#include <cstring>
#include <stdexcept>
#include <type_traits>

namespace shampoo {

namespace {

/// Writes fields one after the other.
class Writer {
 public:
  static constexpr bool reads = false;

  void bytes(const void* from, std::size_t count) {
    words.append(static_cast<const char*>(from), count);
  }
  std::string words;
};

/// Reads what a Writer wrote.
class Reader {
 public:
  static constexpr bool reads = true;

  explicit Reader(const std::string& words) : words_(words) {}
  void bytes(void* to, std::size_t count) {
    if (count > words_.size() - at_)
      throw std::logic_error("a state dict of another rank ends early");
    std::memcpy(to, words_.data() + at_, count);
    at_ += count;
  }

 private:
  const std::string& words_;
  std::size_t at_ = 0;
};

template <typename Stream, typename Value>
requires std::is_arithmetic_v<Value> || std::is_enum_v<Value>
void pass(Stream& stream, Value& value) { stream.bytes(&value, sizeof(value)); }

template <typename Stream>
void pass(Stream& stream, std::string& text) {
  std::size_t count = text.size();
  pass(stream, count);
  if constexpr (Stream::reads) text.resize(count);
  stream.bytes(text.data(), count);
}

template <typename Stream>
void pass(Stream& stream, Rates& rates) {
  static_assert(std::is_trivially_copyable_v<Rates>);
  stream.bytes(&rates, sizeof(rates));
}

template <typename Stream>
void pass(Stream& stream, RecipeField& field);
template <typename Stream>
void pass(Stream& stream, BlockState& block);
template <typename Stream>
void pass(Stream& stream, ParameterState& parameter);
template <typename Stream>
void pass(Stream& stream, StateTensor& tensor);

template <typename Stream, typename Element>
void pass(Stream& stream, std::vector<Element>& list) {
  std::size_t count = list.size();
  pass(stream, count);
  if constexpr (Stream::reads) list.resize(count);
  for (Element& element : list) pass(stream, element);
}

template <typename Stream, typename... Fields>
void pass_all(Stream& stream, Fields&... fields) {
  (pass(stream, fields), ...);
}

template <typename Stream>
void pass(Stream& stream, RecipeField& field) {
  pass_all(stream, field.name, field.value);
}
template <typename Stream>
void pass(Stream& stream, BlockState& block) {
  pass_all(stream, block.box.offset, block.box.extent, block.failures, block.phase);
}
template <typename Stream>
void pass(Stream& stream, ParameterState& p) {
  pass_all(stream, p.name, p.shape, p.steps, p.recipe, p.rates, p.blocks);
}
template <typename Stream>
void pass(Stream& stream, StateTensor& t) {
  pass_all(stream, t.parameter, t.slot, t.shape, t.box.offset, t.box.extent, t.layout, t.dimension,
           t.type);
}
template <typename Stream>
void pass(Stream& stream, StateDict& dict) {
  pass_all(stream, dict.format, dict.library, dict.arithmetic, dict.progress.attempts,
           dict.progress.taken, dict.progress.skipped_in_a_row, dict.parameters, dict.tensors);
}

}  // namespace

std::string serialize(const StateDict& dict) {
  Writer writer;
  pass(writer, const_cast<StateDict&>(dict));  // a Writer only reads it
  return std::move(writer.words);
}

StateDict from_words(const std::string& words) {
  Reader reader(words);
  StateDict dict;
  pass(reader, dict);
  return dict;
}

}  // namespace shampoo
