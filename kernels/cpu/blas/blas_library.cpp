// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>
#include <string>

#include "kernels/cpu/blas/blas.h"

namespace shampoo::kernels::blas {

namespace {

template <typename Function>
void find(Function*& function, const std::string& name) {
  function = library().find<Function>(name.c_str());
  if (!function) throw std::runtime_error("BLAS: this library has no function " + name);
}

template <typename Real>
Routines<Real> find_all(const std::string& letter) {
  Routines<Real> found{};
  find(found.gemm, letter + "gemm_");
  find(found.syrk, letter + "syrk_");
  find(found.symm, letter + "symm_");
  find(found.trmm, letter + "trmm_");
  find(found.syevd, letter + "syevd_");
  find(found.gesdd, letter + "gesdd_");
  return found;
}

}  // namespace

const Module& library() {
  static const Module module("blas", Binding::SHAMPOO_BLAS_BINDING);
  if (!module.loaded()) throw std::runtime_error("BLAS: " + module.problem());
  return module;
}

template <>
const Routines<float>& routines() {
  static const Routines<float> found = find_all<float>("s");
  return found;
}

template <>
const Routines<double>& routines() {
  static const Routines<double> found = find_all<double>("d");
  return found;
}

}  // namespace shampoo::kernels::blas
