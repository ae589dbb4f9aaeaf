// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cblas.h>

#include <cstdint>

namespace fashion {

/// A row-major matrix as BLAS sees it: where it starts and the distance between its rows.
template <typename Scalar>
struct Matrix {
  Scalar* data;
  std::int64_t stride;
};

enum class Op { plain, transposed };

/// How a product enters its destination: C = A B, or C = C + A B.
enum class Into { replace, add };

/// BLAS counts in int; nothing here comes near its limit.
inline int narrow(std::int64_t size) { return static_cast<int>(size); }

inline CBLAS_TRANSPOSE transpose(Op op) { return op == Op::plain ? CblasNoTrans : CblasTrans; }

/// C (m x n) <- [C +] op(A) (m x k) op(B) (k x n)
inline void multiply(Matrix<const float> a, Op op_a, Matrix<const float> b, Op op_b,
                     Matrix<float> c, std::int64_t m, std::int64_t n, std::int64_t k, Into into) {
  cblas_sgemm(CblasRowMajor, transpose(op_a), transpose(op_b), narrow(m), narrow(n), narrow(k),
              1.0f, a.data, narrow(a.stride), b.data, narrow(b.stride),
              into == Into::add ? 1.0f : 0.0f, c.data, narrow(c.stride));
}

inline void multiply(Matrix<const double> a, Op op_a, Matrix<const double> b, Op op_b,
                     Matrix<double> c, std::int64_t m, std::int64_t n, std::int64_t k, Into into) {
  cblas_dgemm(CblasRowMajor, transpose(op_a), transpose(op_b), narrow(m), narrow(n), narrow(k), 1.0,
              a.data, narrow(a.stride), b.data, narrow(b.stride), into == Into::add ? 1.0 : 0.0,
              c.data, narrow(c.stride));
}

}  // namespace fashion
