// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <algorithm>

#include "distributor/transports/nccl/nccl_api.h"

namespace shampoo {

namespace {

constexpr int threads = 256;
/// Enough to fill any device; each thread strides over the remaining elements.
constexpr std::int64_t max_blocks = 4096;

__device__ float real(float x) { return x; }
__device__ double real(double x) { return x; }
__device__ float real(__half x) { return __half2float(x); }
__device__ float real(__nv_bfloat16 x) { return __bfloat162float(x); }

__device__ void round_to(float x, float& to) { to = x; }
__device__ void round_to(double x, double& to) { to = x; }
__device__ void round_to(float x, __half& to) { to = __float2half_rn(x); }
__device__ void round_to(float x, __nv_bfloat16& to) { to = __float2bfloat16_rn(x); }

/// sum_i <- (parts_0i + parts_1i + ...) / divisor
template <typename Stored, typename Real>
__global__ void __launch_bounds__(threads)
    sum_parts(const Stored* parts, int n, std::int64_t count, Real divisor, Stored* sum) {
  const std::int64_t stride = std::int64_t{gridDim.x} * threads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x; i < count; i += stride) {
    Real total = real(parts[i]);
    for (int part = 1; part < n; ++part) total += real(parts[part * count + i]);
    round_to(total / divisor, sum[i]);
  }
}

/// Returns the status of this launch alone: cudaGetLastError() would also tell of an earlier error.
template <typename Stored, typename Real>
cudaError_t launch(cudaStream_t stream, const void* parts, int n, std::int64_t count,
                   double divisor, void* sum) {
  cudaLaunchConfig_t config{};
  config.gridDim =
      dim3(static_cast<unsigned>(std::min((count + threads - 1) / threads, max_blocks)));
  config.blockDim = dim3(threads);
  config.stream = stream;
  return cudaLaunchKernelEx(&config, sum_parts<Stored, Real>, static_cast<const Stored*>(parts), n,
                            count, static_cast<Real>(divisor), static_cast<Stored*>(sum));
}

}  // namespace

int ordered_sum_on(StreamRef stream, const void* parts, int n, std::int64_t count, Type type,
                   double divisor, void* sum) {
  if (count == 0) return 0;
  const auto on = static_cast<cudaStream_t>(stream.handle);
  switch (type) {
    case Type::float64:
      return launch<double, double>(on, parts, n, count, divisor, sum);
    case Type::float32:
      return launch<float, float>(on, parts, n, count, divisor, sum);
    case Type::bfloat16:
      return launch<__nv_bfloat16, float>(on, parts, n, count, divisor, sum);
    case Type::float16:
      return launch<__half, float>(on, parts, n, count, divisor, sum);
  }
  return cudaErrorInvalidValue;
}

}  // namespace shampoo
