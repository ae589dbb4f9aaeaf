// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "kernels/facets.h"

namespace shampoo::test {

/// The backends on which tests run.
enum class Place {
  cpu,
  emulated,  ///< the device backend on an emulated device
  cuda       ///< the device backend on the first GPU
};

inline constexpr Place all_places[] = {Place::cpu, Place::emulated, Place::cuda};

std::string name_of(Place place);

/// Why tests cannot run there; empty: they can.
std::string missing(Place place);
/// Skips the test if they cannot run there, or fails it if SHAMPOO_REQUIRE_CUDA is 1. For SetUp(),
/// after which GoogleTest leaves such a test out.
void require(Place place);

/// A backend with memory of its own; on a GPU that of the whole program, as making one takes long.
std::shared_ptr<kernels::Backend> backend_at(Place place, int threads = 2);
/// A backend that takes arrays of the host: see StagingBackend.
std::unique_ptr<kernels::Backend> backend_with_host_arrays(Place place, int threads = 2);

/// A type parameter of tests: arithmetic and backend.
template <typename RealType, Place where>
struct On {
  using Real = RealType;
  static constexpr Place place = where;
};

using RealsAtAllPlaces =
    ::testing::Types<On<float, Place::cpu>, On<double, Place::cpu>, On<float, Place::emulated>,
                     On<double, Place::emulated>, On<float, Place::cuda>, On<double, Place::cuda>>;

/// Names such tests, as in Suite/emulated_float32.
struct NameOfPlace {
  template <typename Tested>
  static std::string GetName(int) {
    return name_of(Tested::place) + (sizeof(typename Tested::Real) == 4 ? "_float32" : "_float64");
  }
};

/// Tests of RealsAtAllPlaces.
template <typename Tested>
class AtPlace : public ::testing::Test {
 protected:
  void SetUp() override {
    require(Tested::place);
    if (!IsSkipped() && !HasFatalFailure()) backend = backend_with_host_arrays(Tested::place);
  }

  std::unique_ptr<kernels::Backend> backend;
};

}  // namespace shampoo::test
