// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "kernels/solvers/solver_arguments.h"

namespace shampoo::kernels {

/// Fractions whose sum is z^-exponent for every z in [1 / kappa, 1], up to a relative error of
/// `tolerance`. exponent in (0, 1), kappa in (1, 1e13], tolerance in [1e-14, 0.1]: at most
/// most_partial_fractions.
///
///     z^-a = sin(pi a) / pi  integral over all x of e^((1 - a) x) / (z + e^x)       [Bonito 2015]
///
/// by the trapezoidal rule, whose relative error with steps of h is 2 sin(pi a) exp(-2 pi^2 / h),
/// but for its square [Trefethen 2014]. The terms of either end, where e^x is far below or above
/// all z, become one fraction, with their sum and their mean pole.
std::vector<PartialFraction> partial_fractions(double exponent, double kappa, double tolerance);

}  // namespace shampoo::kernels
