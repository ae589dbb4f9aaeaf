// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "distributor/communicator.h"

namespace shampoo {

/// As user_communicator(), with a reducer for CUDA memory, which is made in the first reduction;
/// see make_device_reducer().
std::unique_ptr<Communicator> user_communicator(
    Collectives collectives,
    std::function<std::shared_ptr<Reducer>(const void* data)> make_reducer);

}  // namespace shampoo
