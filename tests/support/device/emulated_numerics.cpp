// SPDX-License-Identifier: Apache-2.0
#include "tests/support/device/emulated_numerics.h"

#include <algorithm>
#include <memory>
#include <new>

#include "kernels/cpu/blas/blas.h"
#include "kernels/rules/stored.h"

namespace shampoo::test {

namespace {

using kernels::cuda::EigenProblem;
using kernels::cuda::Matrices;
using kernels::cuda::Product;

/// Memory with one alignment, on which bits of BLAS may depend.
template <typename T>
class Aligned {
 public:
  explicit Aligned(std::int64_t count)
      : data_(new (std::align_val_t{64}) T[static_cast<std::size_t>(count)]()) {}

  T* data() const { return data_.get(); }
  T& operator[](std::int64_t i) const { return data_[static_cast<std::size_t>(i)]; }

 private:
  struct Delete {
    void operator()(T* data) const { ::operator delete[](data, std::align_val_t{64}); }
  };
  std::unique_ptr<T[], Delete> data_;
};

/// One matrix, dense, transposed if so asked, in the type of the sums.
template <typename Real>
Aligned<Real> gathered(const Matrices& from, std::int64_t index, std::int64_t rows,
                       std::int64_t columns) {
  Aligned<Real> to(rows * columns);
  kernels::with_type(from.type, [&](auto* tag) {
    const auto* const first =
        static_cast<const std::remove_pointer_t<decltype(tag)>*>(from.data) + index * from.stride;
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j)
        to[i * columns + j] =
            kernels::real<Real>(first[from.transposed ? j * from.row + i : i * from.row + j]);
  });
  return to;
}

template <typename Real>
void multiply_in(const Product& p) {
  const int m = static_cast<int>(p.rows), n = static_cast<int>(p.columns);
  const int k = static_cast<int>(p.depth);
  const Aligned<Real> product(p.rows * p.columns);
  for (std::int64_t index = 0; index < p.count; ++index) {
    const Aligned<Real> a = gathered<Real>(p.a, index, p.rows, p.depth);
    const Aligned<Real> b = gathered<Real>(p.b, index, p.depth, p.columns);
    // Row-major C = A B is column-major C^T = B^T A^T.
    if (k > 0)
      kernels::blas::gemm('N', 'N', n, m, k, Real(1), b.data(), n, a.data(), k, Real(0),
                          product.data(), n);
    const Real alpha = static_cast<Real>(p.alpha), beta = static_cast<Real>(p.beta);
    kernels::with_type(p.c_type, [&](auto* tag) {
      using Stored = std::remove_pointer_t<decltype(tag)>;
      Stored* const c = static_cast<Stored*>(p.c) + index * p.c_stride;
      const Stored* const d =
          p.addend == nullptr ? c : static_cast<const Stored*>(p.addend) + index * p.c_stride;
      for (std::int64_t i = 0; i < p.rows; ++i)
        for (std::int64_t j = 0; j < p.columns; ++j) {
          const Real x = alpha * product[i * p.columns + j];
          const std::int64_t at = i * p.c_row + j;
          c[at] = kernels::stored<Stored>(beta == 0 ? x : x + beta * kernels::real<Real>(d[at]));
        }
    });
  }
}

}  // namespace

void multiply_now(const Product& product) {
  if (product.rows == 0 || product.columns == 0) return;
  product.c_type == Type::float64 ? multiply_in<double>(product) : multiply_in<float>(product);
}

void decompose_now(const EigenProblem& problem) {
  const std::int64_t side = problem.side;
  if (side == 0) return;
  const int n = static_cast<int>(side);
  const int work_count = 1 + 6 * n + 2 * n * n, integer_count = 3 + 5 * n;
  const Aligned<double> q(side * side), l(side), work(work_count);
  const Aligned<int> integers(integer_count);
  std::copy(problem.matrix, problem.matrix + side * side, q.data());
  *problem.failed = kernels::blas::syevd(n, q.data(), l.data(), work.data(), work_count,
                                         integers.data(), integer_count);
  std::copy(q.data(), q.data() + side * side, problem.matrix);
  std::copy(l.data(), l.data() + side, problem.values);
}

}  // namespace shampoo::test
