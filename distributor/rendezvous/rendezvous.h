// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "distributor/rendezvous/detection.h"
#include "distributor/store/store.h"

namespace shampoo::joining {

/// Ranks that have agreed to be one job.
struct Meeting {
  std::shared_ptr<Store> store;
  std::string generation;          ///< see agree()
  std::chrono::milliseconds left;  ///< of options.connect_deadline, or a little more
};

/// Meets the other ranks at detected.host and port, within options.connect_deadline. Collective.
/// `prepare` is called when the store was reached; what it throws all others are told, and this
/// rank throws it. Throws as join() does.
Meeting meet(const Detected& detected, const JoinOptions& options,
             const std::function<void()>& prepare);

}  // namespace shampoo::joining
