// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/gemm/form_kernels.h"
#include "kernels/solvers/solver_arguments.h"

/// Products of symmetric matrices by a library, from the parts of their forms.
namespace shampoo::kernels::cuda {

/// Products that a library makes one after the other.
struct SymmetricTerms {
  std::array<Product, 4> products;
  int count = 0;

  void add(const Product& product) { products[count++] = product; }
};

/// P, whose mean with its transpose is A B, as a sum of products of parts. That of both low parts,
/// 2^-22 of the whole, is left out.
SymmetricTerms terms_of(const SymmetricProductGroup& group, Form operands);

/// True if the library can write C but for the identity: halves of halves and one addend or none,
/// or an unsymmetric product.
bool is_written_by_library(const SquareMatrixBatch& squares, Form operands, const Weights& weights,
                           Form form);

/// C without the identity.
SymmetricTerms terms_of_result(const SymmetricProductGroup& group, Form operands,
                               const Weights& weights, Form form);

}  // namespace shampoo::kernels::cuda
