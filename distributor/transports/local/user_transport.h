// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "distributor/communicator.h"

namespace shampoo {

/// See make_device_reducer().
using MakeReducer = std::function<std::shared_ptr<Reducer>(const void* data)>;

/// As user_communicator(), with a reducer for CUDA memory, which is made in the first reduction.
std::unique_ptr<Communicator> user_communicator(Collectives collectives, MakeReducer make_reducer);

}  // namespace shampoo
