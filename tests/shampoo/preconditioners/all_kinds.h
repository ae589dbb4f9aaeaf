// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "shampoo/recipe.h"

namespace shampoo::test {

/// Every kind, with the options that take paths of their own: the parameter of tests of what holds
/// for all kinds.
inline std::vector<Preconditioner> all_kinds() {
  return {RootInverse{},
          RootInverse{.precondition_1d = false},
          RootInverse{.root_type = Type::float16},
          KullbackLeibler{.form = RootInverse{.root_type = Type::float16}},
          Eigendecomposed{},
          Eigendecomposed{.precondition_1d = false},
          KullbackLeibler{},
          KullbackLeibler{.form = Eigendecomposed{.solver = Qr{}}, .normalize = true},
          EigenvalueCorrected{},
          EigenvalueCorrected{.solver = Qr{}},
          Spectral{},
          Spectral{.solver = PolarExpress{}, .scale = SpectralScale::match_rms},
          Spectral{.solver = Svd{}},
          Sgd{},
          AdaGrad{},
          AdaGrad{.initial_accumulator = 0.1},
          RmsProp{},
          RmsProp{.centered = true},
          Adam{},
          Adam{.amsgrad = true},
          Adam{.drop_weighting = true},
          Sign{}};
}

/// Muon's kind, which refuses vectors and scalars.
inline bool takes_matrices_only(const Preconditioner& kind) {
  return std::holds_alternative<Spectral>(kind);
}

inline std::string name_of_kind(const testing::TestParamInfo<Preconditioner>& info) {
  const auto name = [](const auto& kind) { return std::string(kind.name); };
  return std::visit(name, info.param) + "_" + std::to_string(info.index);
}

}  // namespace shampoo::test
