// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device/cuda_eigen.h"

#include <algorithm>

#include "kernels/cuda/device/cuda_status.h"

namespace shampoo::kernels::cuda {

namespace {

/// cuSOLVER fails above some 32 thousand matrices.
constexpr std::int64_t most_eigenproblems = 16384;

constexpr cusolverEigMode_t vectors = CUSOLVER_EIG_MODE_VECTOR;
constexpr cublasFillMode_t triangle = CUBLAS_FILL_MODE_LOWER;

cudaDataType eigenvalue_type(Type type) { return type == Type::float64 ? CUDA_R_64F : CUDA_R_32F; }

/// `count` matrices of a problem from number `first` on.
EigenProblem part(const EigenProblem& problem, std::int64_t first, std::int64_t count) {
  EigenProblem result = problem;
  const std::int64_t bytes = static_cast<std::int64_t>(size_of(problem.type)) * problem.side;
  result.count = count;
  result.matrices = static_cast<char*>(problem.matrices) + first * bytes * problem.side;
  result.values = static_cast<char*>(problem.values) + first * bytes;
  result.failed = problem.failed + first;
  return result;
}

}  // namespace

CudaEigen::CudaEigen(int device, cudaStream_t stream, CudaMemory& memory, std::size_t most_bytes)
    : device_(device), stream_(stream), most_bytes_(most_bytes), workspace_(memory) {}

CudaEigen::~CudaEigen() {
  if (rotations_ != nullptr) cusolverDnDestroySyevjInfo(rotations_);
  if (parameters_ != nullptr) cusolverDnDestroyParams(parameters_);
  if (library_ != nullptr) cusolverDnDestroy(library_);
}

void CudaEigen::create() {
  if (library_ == nullptr) {
    check(cusolverDnCreate(&library_), "cusolverDnCreate", device_);
    check(cusolverDnSetStream(library_, stream_), "cusolverDnSetStream", device_);
  }
  if (parameters_ == nullptr)
    check(cusolverDnCreateParams(&parameters_), "cusolverDnCreateParams", device_);
  if (rotations_ == nullptr)
    check(cusolverDnCreateSyevjInfo(&rotations_), "cusolverDnCreateSyevjInfo", device_);
}

CudaEigen::Bytes CudaEigen::needed_by_jacobi(const EigenProblem& p) const {
  const int n = static_cast<int>(p.side), count = static_cast<int>(p.count);
  int elements = 0;
  if (p.type == Type::float64)
    check(cusolverDnDsyevjBatched_bufferSize(
              library_, vectors, triangle, n, static_cast<const double*>(p.matrices), n,
              static_cast<const double*>(p.values), &elements, rotations_, count),
          "cusolverDnDsyevjBatched_bufferSize", device_);
  else
    check(cusolverDnSsyevjBatched_bufferSize(
              library_, vectors, triangle, n, static_cast<const float*>(p.matrices), n,
              static_cast<const float*>(p.values), &elements, rotations_, count),
          "cusolverDnSsyevjBatched_bufferSize", device_);
  return {static_cast<std::size_t>(elements) * size_of(p.type), 0};
}

CudaEigen::Bytes CudaEigen::needed(const EigenProblem& p) const {
  if (p.solver == Eigensolver::jacobi) return needed_by_jacobi(p);
  Bytes bytes;
  const cudaDataType type = eigenvalue_type(p.type);
  check(cusolverDnXsyevBatched_bufferSize(library_, parameters_, vectors, triangle, p.side, type,
                                          p.matrices, p.side, type, p.values, type, &bytes.device,
                                          &bytes.host, p.count),
        "cusolverDnXsyevBatched_bufferSize", device_);
  return bytes;
}

std::int64_t CudaEigen::part_of(const EigenProblem& problem) {
  const Shape shape{problem.type, problem.side, problem.solver, problem.count};
  const auto known = parts_.find(shape);
  if (known != parts_.end()) return known->second;
  create();

  EigenProblem tried = problem;
  tried.count = std::min(problem.count, most_eigenproblems);
  Bytes bytes = needed(tried);
  while (tried.count > 1 && bytes.device > most_bytes_) {
    tried.count = (tried.count + 1) / 2;
    bytes = needed(tried);
  }
  if (bytes.device > workspace_.bytes()) {
    workspace_.reserve(bytes.device);
    // Some versions of the library take what they find there for their own zeros.
    check(cudaMemsetAsync(workspace_.data(), 0, bytes.device, stream_), "cudaMemsetAsync", device_);
  }
  if (bytes.host > host_.size()) {
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize", device_);  // may still be used
    host_.resize(bytes.host);
  }
  parts_[shape] = tried.count;
  return tried.count;
}

void CudaEigen::reserve(Type type, std::int64_t side, std::int64_t count) {
  if (side > 0 && count > 0) part_of({.type = type, .side = side, .count = count});
}

void CudaEigen::decompose(const EigenProblem& problem) {
  if (problem.side == 0 || problem.count == 0) return;
  refuse_capture(stream_, device_, "eigendecomposition");
  const std::int64_t size = part_of(problem);
  for (std::int64_t first = 0; first < problem.count; first += size) {
    const EigenProblem some = part(problem, first, std::min(size, problem.count - first));
    problem.solver == Eigensolver::jacobi ? run_jacobi(some) : run(some);
  }
}

void CudaEigen::run(const EigenProblem& p) {
  const cudaDataType type = eigenvalue_type(p.type);
  check(cusolverDnXsyevBatched(library_, parameters_, vectors, triangle, p.side, type, p.matrices,
                               p.side, type, p.values, type, workspace_.data(), workspace_.bytes(),
                               host_.data(), host_.size(), p.failed, p.count),
        "cusolverDnXsyevBatched", device_);
}

void CudaEigen::run_jacobi(const EigenProblem& p) {
  const int n = static_cast<int>(p.side), count = static_cast<int>(p.count);
  // The library counts elements in an int.
  const int elements = static_cast<int>(
      std::min<std::size_t>(workspace_.bytes() / size_of(p.type), std::size_t{1} << 30));
  if (p.type == Type::float64)
    check(cusolverDnDsyevjBatched(library_, vectors, triangle, n, static_cast<double*>(p.matrices),
                                  n, static_cast<double*>(p.values),
                                  static_cast<double*>(workspace_.data()), elements, p.failed,
                                  rotations_, count),
          "cusolverDnDsyevjBatched", device_);
  else
    check(cusolverDnSsyevjBatched(library_, vectors, triangle, n, static_cast<float*>(p.matrices),
                                  n, static_cast<float*>(p.values),
                                  static_cast<float*>(workspace_.data()), elements, p.failed,
                                  rotations_, count),
          "cusolverDnSsyevjBatched", device_);
}

}  // namespace shampoo::kernels::cuda
