// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
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
  shampoo::ParameterGroup unrouted = {};  ///< parameters and schedules for shampoo_route()
  std::vector<std::pair<std::string, double>> unrouted_rates = {};
  std::vector<shampoo::ParameterGroup> groups = {};
  bool group_begun = false;  ///< since the last shampoo_route()
  shampoo::OptimizerOptions options = {};
  std::map<const void*, const void*> slabs = {};  ///< of a value: where it begins, where its slab
};
struct shampoo_optimizer {
  std::unique_ptr<shampoo_backend> own_backend;
  std::unique_ptr<shampoo_communicator> own_ranks;
  shampoo_communicator* ranks;
  std::map<const void*, const void*> slabs;  ///< see shampoo_setup
  /// Destroyed after the optimizer: then it exchanges nothing.
  std::optional<shampoo::Evaluation> evaluation;
  shampoo::Optimizer optimizer;
  std::string text = {};  ///< what was returned last
};
struct shampoo_user_state {
  shampoo::UserState user;
  shampoo::OtherRanks other_ranks = shampoo::OtherRanks::refuse;
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
