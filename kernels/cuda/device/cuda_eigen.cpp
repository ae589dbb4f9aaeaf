// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device/cuda_eigen.h"

#include "kernels/cuda/device/cuda_status.h"

namespace shampoo::kernels::cuda {

namespace {

constexpr cusolverEigMode_t vectors = CUSOLVER_EIG_MODE_VECTOR;
constexpr cublasFillMode_t triangle = CUBLAS_FILL_MODE_LOWER;
constexpr cudaDataType float64 = CUDA_R_64F;

}  // namespace

CudaEigen::CudaEigen(int device, cudaStream_t stream, CudaMemory& memory)
    : device_(device), stream_(stream), workspace_(memory) {}

CudaEigen::~CudaEigen() {
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
}

CudaEigen::Bytes CudaEigen::workspace_of(std::int64_t side) {
  create();
  Bytes bytes;
  check(
      cusolverDnXsyevd_bufferSize(library_, parameters_, vectors, triangle, side, float64, nullptr,
                                  side, float64, nullptr, float64, &bytes.device, &bytes.host),
      "cusolverDnXsyevd_bufferSize", device_);
  workspace_.reserve(bytes.device);
  if (bytes.host > host_.size()) {
    refuse_capture(stream_, device_, "growth of the workspace of eigendecompositions");
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize", device_);  // may still be used
    host_.resize(bytes.host);
  }
  return bytes;
}

void CudaEigen::reserve(std::int64_t side) {
  if (side > 0) workspace_of(side);
}

void CudaEigen::decompose(const EigenProblem& p) {
  if (p.side == 0) return;
  refuse_capture(stream_, device_, "eigendecomposition");
  const Bytes bytes = workspace_of(p.side);
  check(cusolverDnXsyevd(library_, parameters_, vectors, triangle, p.side, float64, p.matrix,
                         p.side, float64, p.values, float64, workspace_.data(), bytes.device,
                         host_.data(), bytes.host, p.failed),
        "cusolverDnXsyevd", device_);
}

}  // namespace shampoo::kernels::cuda
