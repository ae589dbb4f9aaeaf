// SPDX-License-Identifier: Apache-2.0
#pragma once

extern "C" {
void sgemm_(const char*, const char*, const int*, const int*, const int*, const float*,
            const float*, const int*, const float*, const int*, const float*, float*, const int*);
void dgemm_(const char*, const char*, const int*, const int*, const int*, const double*,
            const double*, const int*, const double*, const int*, const double*, double*,
            const int*);
void ssyrk_(const char*, const char*, const int*, const int*, const float*, const float*,
            const int*, const float*, float*, const int*);
void dsyrk_(const char*, const char*, const int*, const int*, const double*, const double*,
            const int*, const double*, double*, const int*);
void ssymm_(const char*, const char*, const int*, const int*, const float*, const float*,
            const int*, const float*, const int*, const float*, float*, const int*);
void dsymm_(const char*, const char*, const int*, const int*, const double*, const double*,
            const int*, const double*, const int*, const double*, double*, const int*);
void strmm_(const char*, const char*, const char*, const char*, const int*, const int*,
            const float*, const float*, const int*, float*, const int*);
void dtrmm_(const char*, const char*, const char*, const char*, const int*, const int*,
            const double*, const double*, const int*, double*, const int*);
void ssyevd_(const char*, const char*, const int*, float*, const int*, float*, float*, const int*,
             int*, const int*, int*);
void dsyevd_(const char*, const char*, const int*, double*, const int*, double*, double*,
             const int*, int*, const int*, int*);
void sgesdd_(const char*, const int*, const int*, float*, const int*, float*, float*, const int*,
             float*, const int*, float*, const int*, int*, int*);
void dgesdd_(const char*, const int*, const int*, double*, const int*, double*, double*, const int*,
             double*, const int*, double*, const int*, int*, int*);
}

/// BLAS and LAPACK by overload, column-major as they are.
namespace shampoo::kernels::blas {

/// C <- alpha op(A) op(B) + beta C, with C m x n and inner length k.
inline void gemm(char op_a, char op_b, int m, int n, int k, float alpha, const float* a, int lda,
                 const float* b, int ldb, float beta, float* c, int ldc) {
  sgemm_(&op_a, &op_b, &m, &n, &k, &alpha, a, &lda, b, &ldb, &beta, c, &ldc);
}
inline void gemm(char op_a, char op_b, int m, int n, int k, double alpha, const double* a, int lda,
                 const double* b, int ldb, double beta, double* c, int ldc) {
  dgemm_(&op_a, &op_b, &m, &n, &k, &alpha, a, &lda, b, &ldb, &beta, c, &ldc);
}

/// C <- alpha A A^T + beta C ('N') or alpha A^T A + beta C ('T'), one triangle, C n x n.
inline void syrk(char uplo, char op, int n, int k, float alpha, const float* a, int lda, float beta,
                 float* c, int ldc) {
  ssyrk_(&uplo, &op, &n, &k, &alpha, a, &lda, &beta, c, &ldc);
}
inline void syrk(char uplo, char op, int n, int k, double alpha, const double* a, int lda,
                 double beta, double* c, int ldc) {
  dsyrk_(&uplo, &op, &n, &k, &alpha, a, &lda, &beta, c, &ldc);
}

/// C <- A B ('L') or B A ('R') with symmetric A, C m x n.
inline void symm(char side, char uplo, int m, int n, const float* a, int lda, const float* b,
                 int ldb, float* c, int ldc) {
  const float one = 1, zero = 0;
  ssymm_(&side, &uplo, &m, &n, &one, a, &lda, b, &ldb, &zero, c, &ldc);
}
inline void symm(char side, char uplo, int m, int n, const double* a, int lda, const double* b,
                 int ldb, double* c, int ldc) {
  const double one = 1, zero = 0;
  dsymm_(&side, &uplo, &m, &n, &one, a, &lda, b, &ldb, &zero, c, &ldc);
}

/// B <- T B, n x n, with T a triangle of A and its diagonal.
inline void trmm(char uplo, int n, const float* a, float* b) {
  const char left = 'L', plain = 'N';
  const float one = 1;
  strmm_(&left, &uplo, &plain, &plain, &n, &n, &one, a, &n, b, &n);
}
inline void trmm(char uplo, int n, const double* a, double* b) {
  const char left = 'L', plain = 'N';
  const double one = 1;
  dtrmm_(&left, &uplo, &plain, &plain, &n, &n, &one, a, &n, b, &n);
}

/// A <- its eigenvectors, one per column, `values` ascending; returns LAPACK's info.
inline int syevd(int n, float* a, float* values, float* work, int work_count, int* integers,
                 int integer_count) {
  const char vectors = 'V', uplo = 'L';
  int info = 0;
  ssyevd_(&vectors, &uplo, &n, a, &n, values, work, &work_count, integers, &integer_count, &info);
  return info;
}
inline int syevd(int n, double* a, double* values, double* work, int work_count, int* integers,
                 int integer_count) {
  const char vectors = 'V', uplo = 'L';
  int info = 0;
  dsyevd_(&vectors, &uplo, &n, a, &n, values, work, &work_count, integers, &integer_count, &info);
  return info;
}

/// The singular value decomposition of A, m x n, which is overwritten: U is m x k, VT k x n, with
/// k = min(m, n), `values` descending; `integers` has 8 k places. Returns LAPACK's info.
inline int gesdd(int m, int n, float* a, float* values, float* u, float* vt, float* work,
                 int work_count, int* integers) {
  const char thin = 'S';
  const int k = m < n ? m : n;
  int info = 0;
  sgesdd_(&thin, &m, &n, a, &m, values, u, &m, vt, &k, work, &work_count, integers, &info);
  return info;
}
inline int gesdd(int m, int n, double* a, double* values, double* u, double* vt, double* work,
                 int work_count, int* integers) {
  const char thin = 'S';
  const int k = m < n ? m : n;
  int info = 0;
  dgesdd_(&thin, &m, &n, a, &m, values, u, &m, vt, &k, work, &work_count, integers, &info);
  return info;
}

}  // namespace shampoo::kernels::blas
