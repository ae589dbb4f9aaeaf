// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "distributor/communicator.h"

namespace shampoo {

/// Names the call that the collectives of its lifetime belong to, in messages: "step 6". Of nested
/// names the outermost counts.
class CallerName {
 public:
  /// `name` has static lifetime; a number of 0 is left out.
  CallerName(Communicator& communicator, std::string_view name, std::int64_t number = 0)
      : communicator_(communicator.caller_.empty() ? &communicator : nullptr) {
    if (!communicator_) return;
    communicator.caller_ = name;
    communicator.caller_number_ = number;
  }
  ~CallerName() {
    if (!communicator_) return;
    communicator_->caller_ = {};
    communicator_->caller_number_ = 0;
  }
  CallerName(const CallerName&) = delete;
  CallerName& operator=(const CallerName&) = delete;

 private:
  Communicator* communicator_;  ///< null within another name
};

}  // namespace shampoo
