// SPDX-License-Identifier: Apache-2.0
#include "distributor/transports/gloo/gloo_store.h"

#include <algorithm>

#include "distributor/communicator.h"

namespace shampoo {

using std::chrono::milliseconds;

void GlooStore::set(const std::string& key, const std::vector<char>& data) {
  keys_.push_back(prefix_ + key);
  store_.set(keys_.back(), {data.data(), data.size()});
}

std::vector<char> GlooStore::get(const std::string& key) {
  auto value = store_.get(prefix_ + key);
  if (!value) {
    wait({key});
    value = store_.get(prefix_ + key);
  }
  if (!value) throw CommunicationError("the store has lost the key " + prefix_ + key);
  return {value->begin(), value->end()};
}

void GlooStore::wait(const std::vector<std::string>& keys) { wait(keys, store_.left()); }

void GlooStore::wait(const std::vector<std::string>& keys, const milliseconds& timeout) {
  std::vector<std::string> prefixed;
  for (const std::string& key : keys) prefixed.push_back(prefix_ + key);
  if (!store_.wait(prefixed, std::min(timeout, store_.left())))
    throw CommunicationError("timed out waiting for a key in the store: " + prefixed.front());
}

void GlooStore::remove_keys() noexcept {
  try {
    for (const std::string& key : keys_) store_.remove(key);
  } catch (...) {  // what remains does no harm
  }
}

}  // namespace shampoo
