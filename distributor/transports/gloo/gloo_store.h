// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gloo/rendezvous/store.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "distributor/store/synchronized_store.h"

namespace shampoo {

/// Adapts a store to Gloo's interface, for one rendezvous that ends at a given time.
class GlooStore final : public gloo::rendezvous::Store {
 public:
  GlooStore(std::shared_ptr<SynchronizedStore> store, std::string prefix,
            std::chrono::steady_clock::time_point end)
      : store_(std::move(store), end), prefix_(std::move(prefix)) {}

  void set(const std::string& key, const std::vector<char>& data) override;
  std::vector<char> get(const std::string& key) override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override;

  /// Removes the keys that Gloo has set on this rank, once all ranks are connected. The store may
  /// be gone by then, with the rank that serves it.
  void remove_keys() noexcept;

 private:
  BoundedStore store_;
  std::string prefix_;
  std::vector<std::string> keys_;
};

}  // namespace shampoo
