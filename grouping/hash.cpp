// SPDX-License-Identifier: Apache-2.0
#include "grouping/hash.h"

#include <xxhash.h>

#include <new>

namespace shampoo::grouping {
namespace {

static_assert(std::endian::native == std::endian::little);

template <typename Bytes>
auto* state(Bytes& bytes) {
  static_assert(sizeof(XXH3_state_t) == sizeof bytes && alignof(XXH3_state_t) <= 64);
  return std::launder(reinterpret_cast<XXH3_state_t*>(bytes.data()));
}

}  // namespace

void Hash::add(std::span<const std::byte> bytes) {
  flush();
  XXH3_64bits_update(state(state_), bytes.data(), bytes.size());
}

std::uint64_t Hash::value() const {
  Hash whole = *this;
  whole.flush();
  return XXH3_64bits_digest(state(whole.state_));
}

void Hash::restart() {
  word_count_ = 0;
  XXH3_64bits_reset(new (state_.data()) XXH3_state_t);
}

void Hash::flush() {
  XXH3_64bits_update(state(state_), words_.data(), word_count_ * sizeof(words_[0]));
  word_count_ = 0;
}

std::uint64_t hash(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::uint64_t hash(std::string_view text) { return hash(std::as_bytes(std::span(text))); }

}  // namespace shampoo::grouping
