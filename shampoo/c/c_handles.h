// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shampoo/c.h"
#include "shampoo/checkpoint.h"
#include "shampoo/distributor/communicator.h"
#include "shampoo/kernels/backend.h"

/// What the opaque handles of c.h are.

struct shampoo_backend {
  std::unique_ptr<shampoo::Backend> backend;
};
struct shampoo_communicator {
  std::unique_ptr<shampoo::Communicator> ranks;
};
struct shampoo_setup {
  std::vector<shampoo::Parameter> unrouted = {};  ///< added before any group
  std::vector<shampoo::ParameterGroup> groups = {};
  shampoo::OptimizerOptions options = {};
};
struct shampoo_optimizer {
  shampoo::Optimizer optimizer;
  std::optional<shampoo::Evaluation> evaluation = std::nullopt;
  std::string text = {};  ///< what was returned last
};
struct shampoo_user_state {
  shampoo::UserState user;
};

namespace shampoo::c {

/// The status of the exception in flight, whose message shampoo_last_error() has from now on.
shampoo_status status_of_exception() noexcept;

/// SHAMPOO_OK, or what the call throws.
template <typename Call>
shampoo_status guarded(const Call& call) noexcept {
  try {
    call();
    return SHAMPOO_OK;
  } catch (...) {
    return status_of_exception();
  }
}

/// Throws std::invalid_argument for null.
void require(const void* argument, const char* name);

/// Throws std::invalid_argument that names what is wrong: `name`, or a field of it.
Tensor tensor_of(const shampoo_tensor& tensor, int sides, const std::string& name);
Type type_of(shampoo_type type, const std::string& name);
std::vector<std::int64_t> shape_of(int sides, const std::int64_t* shape);

/// NaN unsets a rate that can be unset. Throws std::invalid_argument for a name that is none.
void set_rate(Rates& rates, const char* rate, double value);

}  // namespace shampoo::c
