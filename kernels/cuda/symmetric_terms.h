// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/gemm/form_kernels.h"
#include "kernels/solvers/solver_arguments.h"

/// Products of symmetric matrices by a library, from the parts of their forms.
namespace shampoo::kernels::cuda {

/// Products of parts, or panels, whose sum is the product of a group, dense. That of both low
/// parts, 2^-22 of the whole, is left out.
struct SymmetricTerms {
  std::array<Product, 3> products;
  int count = 1;
};

SymmetricTerms terms_of(const SymmetricProductGroup& group, Form operands);

/// True if C is A B alone, which the library rounds to halves.
bool is_plain_half(const SymmetricProductGroup& group, Form operands, const Weights& weights,
                   Form form);

Product half_product(const SymmetricProductGroup& group);

}  // namespace shampoo::kernels::cuda
