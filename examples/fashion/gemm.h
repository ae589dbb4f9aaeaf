// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cblas.h>

namespace fashion {

/// A row-major matrix as BLAS sees it: where it starts and the distance between its rows.
template <typename Scalar>
struct Matrix {
  Scalar* data;
  int stride;
};

enum class Op { plain, transposed };

/// How a product enters its destination: C = A B, or C = C + A B.
enum class Into { replace, add };

inline CBLAS_TRANSPOSE transpose(Op op) { return op == Op::plain ? CblasNoTrans : CblasTrans; }

/// C (m x n) <- [C +] op(A) (m x k) op(B) (k x n)
inline void multiply(Matrix<const float> a, Op op_a, Matrix<const float> b, Op op_b,
                     Matrix<float> c, int m, int n, int k, Into into) {
  cblas_sgemm(CblasRowMajor, transpose(op_a), transpose(op_b), m, n, k, 1.0f, a.data, a.stride,
              b.data, b.stride, into == Into::add ? 1.0f : 0.0f, c.data, c.stride);
}

inline void multiply(Matrix<const double> a, Op op_a, Matrix<const double> b, Op op_b,
                     Matrix<double> c, int m, int n, int k, Into into) {
  cblas_dgemm(CblasRowMajor, transpose(op_a), transpose(op_b), m, n, k, 1.0, a.data, a.stride,
              b.data, b.stride, into == Into::add ? 1.0 : 0.0, c.data, c.stride);
}

}  // namespace fashion
