// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/module.h"

/// BLAS and LAPACK by overload, column-major as they are.
namespace shampoo::kernels::blas {

/// The functions of one type, by their names without its letter.
template <typename Real>
struct Routines {
  using In = const int*;
  using Letter = const char*;

  void (*gemm)(Letter, Letter, In, In, In, const Real*, const Real*, In, const Real*, In,
               const Real*, Real*, In);
  void (*syrk)(Letter, Letter, In, In, const Real*, const Real*, In, const Real*, Real*, In);
  void (*symm)(Letter, Letter, In, In, const Real*, const Real*, In, const Real*, In, const Real*,
               Real*, In);
  void (*trmm)(Letter, Letter, Letter, Letter, In, In, const Real*, const Real*, In, Real*, In);
  void (*syevd)(Letter, Letter, In, Real*, In, Real*, Real*, In, int*, In, int*);
  void (*gesdd)(Letter, In, In, Real*, In, Real*, Real*, In, Real*, In, Real*, In, int*, int*);
};

/// The module that has BLAS and LAPACK, loaded by the first call. Throws std::runtime_error, naming
/// the folders that were searched, if it cannot be loaded or lacks a function.
const Module& library();

/// Its functions for float or double. Throws as library().
template <typename Real>
const Routines<Real>& routines();
template <>
const Routines<float>& routines();
template <>
const Routines<double>& routines();

/// C <- alpha op(A) op(B) + beta C, with C m x n and inner length k.
template <typename Real>
void gemm(char op_a, char op_b, int m, int n, int k, Real alpha, const Real* a, int lda,
          const Real* b, int ldb, Real beta, Real* c, int ldc) {
  routines<Real>().gemm(&op_a, &op_b, &m, &n, &k, &alpha, a, &lda, b, &ldb, &beta, c, &ldc);
}

/// C <- alpha A A^T + beta C ('N') or alpha A^T A + beta C ('T'), one triangle, C n x n.
template <typename Real>
void syrk(char uplo, char op, int n, int k, Real alpha, const Real* a, int lda, Real beta, Real* c,
          int ldc) {
  routines<Real>().syrk(&uplo, &op, &n, &k, &alpha, a, &lda, &beta, c, &ldc);
}

/// C <- A B ('L') or B A ('R') with symmetric A, C m x n.
template <typename Real>
void symm(char side, char uplo, int m, int n, const Real* a, int lda, const Real* b, int ldb,
          Real* c, int ldc) {
  const Real one = 1, zero = 0;
  routines<Real>().symm(&side, &uplo, &m, &n, &one, a, &lda, b, &ldb, &zero, c, &ldc);
}

/// B <- T B, n x n, with T a triangle of A and its diagonal.
template <typename Real>
void trmm(char uplo, int n, const Real* a, Real* b) {
  const char left = 'L', plain = 'N';
  const Real one = 1;
  routines<Real>().trmm(&left, &uplo, &plain, &plain, &n, &n, &one, a, &n, b, &n);
}

/// A <- its eigenvectors, one per column, `values` ascending; returns LAPACK's info.
template <typename Real>
int syevd(int n, Real* a, Real* values, Real* work, int work_count, int* integers,
          int integer_count) {
  const char vectors = 'V', uplo = 'L';
  int info = 0;
  routines<Real>().syevd(&vectors, &uplo, &n, a, &n, values, work, &work_count, integers,
                         &integer_count, &info);
  return info;
}

/// The singular value decomposition of A, m x n, which is overwritten: U is m x k, VT k x n, with
/// k = min(m, n), `values` descending; `integers` has 8 k places. Returns LAPACK's info.
template <typename Real>
int gesdd(int m, int n, Real* a, Real* values, Real* u, Real* vt, Real* work, int work_count,
          int* integers) {
  const char thin = 'S';
  const int k = m < n ? m : n;
  int info = 0;
  routines<Real>().gesdd(&thin, &m, &n, a, &m, values, u, &m, vt, &k, work, &work_count, integers,
                         &info);
  return info;
}

}  // namespace shampoo::kernels::blas
