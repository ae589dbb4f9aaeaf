// SPDX-License-Identifier: Apache-2.0
#include "distributor/transports/gloo/gloo_store.h"

#include <algorithm>
#include <optional>

#include "distributor/error.h"

namespace shampoo {

using std::chrono::milliseconds;

milliseconds GlooStore::remaining() const {
  const auto remaining = std::chrono::ceil<milliseconds>(end_ - std::chrono::steady_clock::now());
  return std::max(remaining, milliseconds(0));
}

void GlooStore::set(const std::string& key, const std::vector<char>& data) {
  store_->with([&](shampoo::Store& store) {
    store.set(prefix_ + key, {data.data(), data.size()});
  });
}

std::vector<char> GlooStore::get(const std::string& key) {
  wait({key});
  const auto value = store_->with([&](shampoo::Store& store) { return store.get(prefix_ + key); });
  if (!value) throw CommunicationError("the store lost the key " + prefix_ + key);
  return {value->begin(), value->end()};
}

void GlooStore::wait(const std::vector<std::string>& keys) { wait(keys, remaining()); }

void GlooStore::wait(const std::vector<std::string>& keys, const milliseconds& timeout) {
  std::vector<std::string> prefixed;
  for (const std::string& key : keys) prefixed.push_back(prefix_ + key);
  if (!store_->wait(prefixed, std::min(timeout, remaining())))
    throw CommunicationError("timed out waiting for a key in the store: " + prefixed.front());
}

}  // namespace shampoo
