// SPDX-License-Identifier: Apache-2.0
#include "tests/shampoo/dlpack.h"

#include <gtest/gtest.h>

#include <functional>
// Behind what it reads.
#include "shampoo/dlpack.h"
#include "tests/support/counting_backend.h"
#include "tests/support/cpu_kernels.h"
#include "tests/support/thrown.h"

namespace shampoo::test {
namespace {

using dlpack::Access;

/// Somebody else's tensor of shape 3 x 4, every other column of 3 x 8, behind an offset.
struct Foreign {
  Foreign() {
    managed.version = {1, 1};
    managed.dl_tensor = {elements.data(), {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, strides, 8};
  }

  std::vector<float> elements = std::vector<float>(26, 0.0f);
  std::int64_t shape[2] = {3, 4}, strides[2] = {8, 2};
  DLManagedTensorVersioned managed = {};
};

TEST(Dlpack, TensorsComeInWithStridesAndOffset) {
  const auto backend = cpu_backend({.threads = 1});
  Foreign foreign;
  const Tensor view = dlpack::tensor_of(foreign.managed, *backend, Access::write, "x");
  EXPECT_EQ(view.data, foreign.elements.data() + 2);
  EXPECT_EQ(view.type, Type::float32);
  EXPECT_EQ(view.strides, (std::vector<std::int64_t>{8, 2}));

  foreign.managed.dl_tensor.strides = nullptr;
  EXPECT_TRUE(dlpack::tensor_of(foreign.managed, *backend, Access::write, "x").strides.empty());
  for (const auto& [code, bits, type] :
       {std::tuple(kDLBfloat, 16, Type::bfloat16), std::tuple(kDLFloat, 16, Type::float16),
        std::tuple(kDLFloat, 64, Type::float64)}) {
    foreign.managed.dl_tensor.dtype = {static_cast<std::uint8_t>(code),
                                       static_cast<std::uint8_t>(bits), 1};
    EXPECT_EQ(dlpack::tensor_of(foreign.managed, *backend, Access::write, "x").type, type);
  }
}

TEST(Dlpack, WhatIsWrongIsNamed) {
  const auto backend = cpu_backend({.threads = 1});
  struct Fault {
    std::function<void(DLManagedTensorVersioned&)> make;
    std::string message;
  };
  const std::vector<Fault> faults = {
      {[](auto& t) { t.version.major = 2; }, "x: version: DLPack's must be 1, got 2"},
      {[](auto& t) { t.dl_tensor.device.device_type = kDLCUDA; },
       "x: device_type: must be 1 (CPU) or 3 (pinned), the backend's memory, got 2"},
      {[](auto& t) { t.dl_tensor.dtype.lanes = 4; }, "x: lanes: must be 1, got 4"},
      {[](auto& t) {
         t.dl_tensor.dtype = {kDLInt, 32, 1};
       },
       "x: dtype: must be float64, float32, bfloat16 or float16; type code 0, bits, got 32"},
      {[](auto& t) {
         t.dl_tensor.dtype = {kDLBfloat, 32, 1};
       },
       "x: dtype: must be float64, float32, bfloat16 or float16; type code 4, bits, got 32"},
      {[](auto& t) { t.dl_tensor.strides[1] = -2; }, "x: strides: must be >= 0, got -2"},
      {[](auto& t) { t.flags = DLPACK_FLAG_BITMASK_READ_ONLY; },
       "x: flags: it is read-only, and steps write it, got 1"}};
  for (const Fault& fault : faults) {
    Foreign foreign;
    fault.make(foreign.managed);
    EXPECT_EQ(error_of<std::invalid_argument>(
                  [&] { dlpack::tensor_of(foreign.managed, *backend, Access::write, "x"); }),
              fault.message);
  }
  Foreign gradient;
  gradient.managed.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  EXPECT_EQ(dlpack::tensor_of(gradient.managed, *backend, Access::read, "x").type, Type::float32);
}

/// A backend that says of itself that it is the second GPU.
class SecondGpu : public CountingBackend {
 public:
  using CountingBackend::CountingBackend;
  MemoryKind memory_kind() const override { return MemoryKind::cuda; }
  int device() const override { return 1; }
};

TEST(Dlpack, TensorsOnADeviceAreThoseOfTheBackendsOwn) {
  const auto cpu = cpu_kernels({.threads = 1});
  const SecondGpu gpu(*cpu);
  const auto error_at = [&](DLDevice device) {
    Foreign foreign;
    foreign.managed.dl_tensor.device = device;
    return error_of<std::invalid_argument>(
        [&] { dlpack::tensor_of(foreign.managed, gpu, Access::write, "x"); });
  };
  EXPECT_EQ(error_at({kDLCUDA, 1}), "");
  EXPECT_EQ(error_at({kDLCUDAManaged, 0}), "");
  EXPECT_EQ(error_at({kDLCUDA, 0}), "x: device_id: must be 1, the backend's, got 0");
  EXPECT_EQ(error_at({kDLCPU, 0}),
            "x: device_type: must be 2 (CUDA) or 13 (managed), the backend's memory, got 1");
  float number = 0;
  const auto out = dlpack::exported({&number}, {1}, gpu);
  EXPECT_EQ(out->dl_tensor.device.device_type, kDLCUDA);
  EXPECT_EQ(out->dl_tensor.device.device_id, 1);
}

TEST(Dlpack, AParameterTrainsWhereItsTensorsLie) {
  const auto backend = cpu_backend({.threads = 1});
  const auto ranks = single_rank_communicator();
  Foreign value, gradient;
  for (float& x : gradient.elements) x = 1.0f;
  const Parameter parameter = dlpack::parameter_of("w", value.managed, &gradient.managed, *backend);
  EXPECT_EQ(parameter.shape, (std::vector<std::int64_t>{3, 4}));
  Optimizer optimizer(*backend, *ranks, {{.parameters = {parameter}}});
  optimizer.step();
  for (std::size_t i = 0; i < value.elements.size(); ++i) {
    const bool is_element = i >= 2 && (i - 2) % 2 == 0 && (i - 2) < 24;
    EXPECT_EQ(value.elements[i] != 0, is_element) << i;
  }
  gradient.shape[0] = 2;
  EXPECT_EQ(error_of<std::invalid_argument>(
                [&] { dlpack::parameter_of("w", value.managed, &gradient.managed, *backend); }),
            "parameter 'w': gradient: shape: must be that of the value");
  EXPECT_EQ(dlpack::parameter_of("w", value.managed, nullptr, *backend).gradient.data, nullptr);
}

TEST(Dlpack, WhatGoesOutComesInAgain) {
  const auto backend = cpu_backend({.threads = 1});
  std::vector<std::uint16_t> elements(24);
  auto held = std::make_shared<int>(0);
  const std::weak_ptr<int> watched = held;
  const Tensor tensor(elements.data(), Type::bfloat16, {1, 4});
  auto out = dlpack::exported(tensor, {4, 6}, *backend, Access::write, std::move(held));
  const Tensor again = dlpack::tensor_of(*out, *backend, Access::write, "x");
  EXPECT_EQ(again.data, tensor.data);
  EXPECT_EQ(again.type, Type::bfloat16);
  EXPECT_EQ(again.strides, tensor.strides);
  EXPECT_EQ(dlpack::shape_of(*out), (std::vector<std::int64_t>{4, 6}));
  EXPECT_FALSE(watched.expired());
  out.reset();
  EXPECT_TRUE(watched.expired());

  const auto rows = dlpack::exported({elements.data(), Type::float16}, {2, 3, 4}, *backend);
  const std::int64_t* const strides = rows->dl_tensor.strides;
  EXPECT_EQ((std::vector<std::int64_t>{strides, strides + 3}),
            (std::vector<std::int64_t>{12, 4, 1}));
}

TEST(Dlpack, TensorsOfACheckpointAreReadOnlyAndKeepTheirMemory) {
  SavedTensor saved{{"x", {2, 3}, checkpoint::Dtype::bf16},
                    std::shared_ptr<const std::byte[]>(new std::byte[12]()),
                    12};
  const std::weak_ptr<const std::byte[]> watched = saved.data;
  auto out = dlpack::exported(saved);
  saved.data.reset();
  EXPECT_FALSE(watched.expired());
  EXPECT_EQ(out->flags, DLPACK_FLAG_BITMASK_READ_ONLY);
  EXPECT_EQ(out->dl_tensor.dtype.code, kDLBfloat);
  out.reset();
  EXPECT_TRUE(watched.expired());
  saved.dtype = checkpoint::Dtype::f8_e4m3;
  EXPECT_EQ(error_of<std::invalid_argument>([&] { dlpack::exported(saved); }),
            "tensor 'x': its dtype has none in DLPack 1.0");
}

}  // namespace
}  // namespace shampoo::test
