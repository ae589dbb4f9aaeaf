// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/gemm/formed_product.h"
#include "kernels/cuda/gemm/gram_terms.h"
#include "kernels/cuda/gemm/half_gram.h"
#include "kernels/cuda/gemm/mode_product.h"
#include "kernels/cuda/gemm/square_products.h"
#include "kernels/cuda/gemm/symmetric_kernels.h"
#include "kernels/cuda/gemm/vector_product.h"
#include "kernels/cuda/launch/start_on_device.h"

namespace shampoo::kernels::cuda {

template int start(std::int64_t, const AddGram&, void*);
template int start(std::int64_t, const HalfGram&, void*);
template int start(std::int64_t, const FormedProduct&, void*);
template int start(std::int64_t, const Gram<float, 64>&, void*);
template int start(std::int64_t, const Gram<float, 128>&, void*);
template int start(std::int64_t, const Gram<double, 64>&, void*);
template int start(std::int64_t, const ModeProduct<float>&, void*);
template int start(std::int64_t, const ModeProduct<double>&, void*);
template int start(std::int64_t, const VectorProduct<float>&, void*);
template int start(std::int64_t, const VectorProduct<double>&, void*);
template int start(std::int64_t, const SquareProduct<float, 64>&, void*);
template int start(std::int64_t, const SquareProduct<float, 128>&, void*);
template int start(std::int64_t, const SquareProduct<double, 64>&, void*);
template int start(std::int64_t, const SymmetricProduct<float, 64>&, void*);
template int start(std::int64_t, const SymmetricProduct<double, 64>&, void*);

}  // namespace shampoo::kernels::cuda
