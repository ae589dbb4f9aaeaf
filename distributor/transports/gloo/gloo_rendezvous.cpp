// SPDX-License-Identifier: Apache-2.0
#include "distributor/transports/gloo/gloo_rendezvous.h"

#include <algorithm>
#include <optional>

#include "distributor/error.h"

namespace shampoo {

using std::chrono::milliseconds;

milliseconds GlooRendezvous::left() const {
  const auto left = std::chrono::ceil<milliseconds>(end_ - std::chrono::steady_clock::now());
  return std::max(left, milliseconds(0));
}

void GlooRendezvous::set(const std::string& key, const std::vector<char>& data) {
  store_->with([&](shampoo::Store& store) {
    store.set(prefix_ + key, {data.data(), data.size()});
  });
}

std::vector<char> GlooRendezvous::get(const std::string& key) {
  wait({key});
  const auto value = store_->with([&](shampoo::Store& store) { return store.get(prefix_ + key); });
  if (!value) throw CommunicationError("the store lost the key " + prefix_ + key);
  return {value->begin(), value->end()};
}

void GlooRendezvous::wait(const std::vector<std::string>& keys) { wait(keys, left()); }

void GlooRendezvous::wait(const std::vector<std::string>& keys, const milliseconds& timeout) {
  std::vector<std::string> prefixed;
  for (const std::string& key : keys) prefixed.push_back(prefix_ + key);
  if (!store_->wait(prefixed, std::min(timeout, left())))
    throw CommunicationError("no such key in the store in time: " + prefixed.front());
}

}  // namespace shampoo
