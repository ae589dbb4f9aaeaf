// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/device/device.h"
#include "tests/bench/prediction/kernel_cost.h"

namespace shampoo::test {

/// One kernel, product, decomposition or copy that was queued.
struct Launch {
  std::string range;  ///< innermost name that was open
  std::string name;   ///< of the kernel, with its template arguments, or "copy", ...
  std::int64_t blocks = 0;
  KernelCost cost;
};

/// A device that computes nothing but whether a step takes place, and writes down what it is asked
/// for. Its memory is the host's, zeroed, and takes room where something is uploaded.
class PlannedDevice final : public kernels::cuda::Device {
 public:
  ~PlannedDevice() override;

  /// What was queued since the last call.
  std::vector<Launch> take();

  std::string description() const override { return "planned device"; }
  std::string arithmetic() const override { return "planned device"; }
  int index() const override { return 0; }
  void* stream() const override { return const_cast<PlannedDevice*>(this); }

  void* allocate(std::size_t bytes) override;
  void release(void* memory) noexcept override;
  void trim() override {}
  void* allocate_host(std::size_t bytes) override { return allocate(bytes); }
  void release_host(void* memory) noexcept override { release(memory); }
  void zero(void*, std::size_t) override {}
  void upload(void* to, const void* from_host, std::size_t bytes) override;
  void download(void* to_host, const void* from, std::size_t bytes) override;
  void copy(void* to, const void* from, std::size_t bytes) override;
  kernels::MemoryUse memory_use() const override { return {}; }
  std::unique_ptr<kernels::Mark> make_mark() override;
  std::unique_ptr<kernels::Timeline> make_timeline(std::size_t points) override;
  bool is_idle() override { return true; }
  void synchronize() override {}
  bool is_capturing() const override { return false; }
  void begin_range(const char* name) override { ranges_.emplace_back(name); }
  void end_range() override { ranges_.pop_back(); }
  void launch(std::int64_t blocks, const kernels::cuda::Kernel& kernel) override;
  void multiply(const kernels::cuda::Product& product) override;
  void reserve_products(std::span<const kernels::cuda::Product>) override {}
  void reserve_eigen(std::int64_t) override {}
  void decompose(const kernels::cuda::EigenProblem& problem) override;

 private:
  void note(std::string name, std::int64_t blocks, const KernelCost& cost);

  std::map<void*, std::size_t> memory_;
  std::vector<std::string> ranges_;
  std::vector<Launch> launches_;
};

}  // namespace shampoo::test
