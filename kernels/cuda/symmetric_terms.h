// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/gemm/form_kernels.h"
#include "kernels/solvers/solver_arguments.h"

/// Products of symmetric matrices by a library, from the parts of their forms.
namespace shampoo::kernels::cuda {

/// Products of parts whose sum is the product of a group, dense. That of both low parts, 2^-22 of
/// the whole, is left out.
struct SymmetricTerms {
  std::array<Product, 3> products;
  int count = 1;
};

SymmetricTerms terms_of(const SymmetricProductGroup& group, Form operands);

/// True if the library can write C but for the identity: of halves, with one addend or none in C's
/// own type.
bool is_written_by_library(const SquareMatrixBatch& squares, Form operands, const Weights& weights,
                           Form form);

/// C without the identity.
Product product_of_halves(const SymmetricProductGroup& group, const Weights& weights, Form form);

}  // namespace shampoo::kernels::cuda
