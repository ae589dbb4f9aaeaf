// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/product_key.h"
#include "tests/support/device/emulated_memory.h"

namespace shampoo::test {

/// One block after the other, and in each of them one thread after the other.
void run_blocks_in_turn(std::int64_t blocks, const kernels::cuda::Kernel& kernel);

/// A device whose kernels run on the host, from the source that devices run. It is as late as a
/// device may be: queued work runs when somebody waits for it. Between that, its memory cannot be
/// read or written, so that a host which follows a pointer into it crashes, and so does work that
/// uses memory after its release; new memory is filled with NaN. A capture takes no product that
/// was not reserved, and no memory.
class EmulatedDevice final : public kernels::cuda::Device {
 public:
  using Work = std::function<void()>;
  using Graph = std::vector<Work>;
  /// Runs the blocks of a launch.
  using Runner = void (*)(std::int64_t blocks, const kernels::cuda::Kernel& kernel);

  explicit EmulatedDevice(Runner runner = run_blocks_in_turn);
  ~EmulatedDevice() override;

  std::string description() const override { return "emulated device"; }
  std::string arithmetic() const override { return "emulated device"; }
  int index() const override { return 0; }
  void* stream() const override { return const_cast<EmulatedDevice*>(this); }

  void* allocate(std::size_t bytes) override;
  void release(void* memory) noexcept override;
  void trim() override;
  void* allocate_host(std::size_t bytes) override;
  void release_host(void* memory) noexcept override;
  void zero(void* memory, std::size_t bytes) override;
  void upload(void* to, const void* from_host, std::size_t bytes) override;
  void download(void* to_host, const void* from, std::size_t bytes) override;
  void copy(void* to, const void* from, std::size_t bytes) override;
  kernels::MemoryUse memory_use() const override;
  std::unique_ptr<kernels::Mark> make_mark() override;
  std::unique_ptr<kernels::Timeline> make_timeline(std::size_t points) override;
  bool is_idle() override;  ///< also runs the oldest queued work
  void synchronize() override;
  bool is_capturing() const override { return captures_; }
  void begin_range(const char* name) override { ranges_.emplace_back(name); }
  void end_range() override { ranges_.pop_back(); }
  void launch(std::int64_t blocks, const kernels::cuda::Kernel& kernel) override;
  void multiply(const kernels::cuda::Product& product) override;
  void reserve_products(std::span<const kernels::cuda::Product> products) override;
  void reserve_eigen(std::int64_t side) override { decomposable_ = std::max(decomposable_, side); }
  void decompose(const kernels::cuda::EigenProblem& problem) override;

  /// Everything queued from here to end_capture() is recorded and not run, as by a CUDA graph.
  void begin_capture();
  Graph end_capture();
  void replay(const Graph& graph);

  /// What a decomposition leaves is worked on by `defect`, as by a library with one.
  void set_decomposition_defect(std::function<void(const kernels::cuda::EigenProblem&)> defect) {
    defect_ = std::move(defect);
  }

  /// Queues what another library would queue on the stream.
  void call(Work work) { enqueue(std::move(work)); }

  std::int64_t launches() const { return launches_; }  ///< kernels, products, copies
  /// launches() but for those of each decomposition: a matrix goes there, products and 5 kernels
  /// make its vectors orthogonal, and they go back.
  std::int64_t launches_beside_decompositions() const {
    return launches_ - (10 + 2 * kernels::cuda::orthogonalizing_steps) * decompositions_;
  }
  std::int64_t allocations() const { return allocations_; }    ///< of both kinds of memory
  std::int64_t decomposable() const { return decomposable_; }  ///< largest side of reserve_eigen()
  std::size_t pending() const { return queue_.size(); }
  /// Names that are open.
  const std::vector<std::string>& ranges() const { return ranges_; }

  /// Runs body() as device work does, for tests that look into device memory.
  void with_memory(const Work& body);

 private:
  friend class EmulatedMark;
  void enqueue(Work work);
  void run_until(std::uint64_t ticket);

  Runner runner_;
  EmulatedMemory memory_, host_memory_;
  std::size_t pool_bytes_ = 0;
  std::deque<Work> queue_;
  std::uint64_t queued_ = 0, done_ = 0;
  Graph captured_;
  bool captures_ = false;
  std::set<kernels::cuda::ProductKey> planned_;  ///< products
  std::vector<std::string> ranges_;
  std::function<void(const kernels::cuda::EigenProblem&)> defect_ = [](const auto&) {};
  std::int64_t launches_ = 0, decompositions_ = 0, allocations_ = 0, decomposable_ = 0;
};

}  // namespace shampoo::test
