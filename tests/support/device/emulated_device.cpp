// SPDX-License-Identifier: Apache-2.0
#include "tests/support/device/emulated_device.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <utility>

#include "kernels/cpu/blas/blas_setup.h"
#include "kernels/cpu/floating_mode.h"
#include "tests/support/device/emulated_numerics.h"

namespace shampoo::test {

class EmulatedMark final : public kernels::Mark {
 public:
  explicit EmulatedMark(EmulatedDevice& device) : device_(device) {}
  void set() override { ticket_ = device_.queued_; }
  void wait() override { device_.run_until(ticket_); }

 private:
  EmulatedDevice& device_;
  std::uint64_t ticket_ = 0;
};

/// The host's clock when the queue comes to a point.
class EmulatedTimeline final : public kernels::Timeline {
 public:
  EmulatedTimeline(EmulatedDevice& device, std::size_t points)
      : device_(device), times_(std::make_shared<Times>(points)) {}
  void mark(std::size_t point) override {
    device_.call([times = times_, point] { (*times)[point] = Clock::now(); });
  }
  std::optional<double> seconds(std::size_t from, std::size_t to) override {
    const auto &begin = times_->at(from), &end = times_->at(to);
    if (!begin || !end) return {};
    return std::chrono::duration<double>(*end - *begin).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  using Times = std::vector<std::optional<Clock::time_point>>;
  EmulatedDevice& device_;
  std::shared_ptr<Times> times_;  ///< queued work may outlive the timeline
};

void run_blocks_in_turn(std::int64_t blocks, const kernels::cuda::Kernel& kernel) {
  std::visit(
      [&](const auto& program) {
        using Program = std::remove_cvref_t<decltype(program)>;
        auto shared = std::make_unique<typename Program::Shared>();
        for (std::int64_t index = 0; index < blocks; ++index) {
          std::memset(static_cast<void*>(shared.get()), 0xff, sizeof(*shared));
          kernels::cuda::HostThreads<Program::threads> block(index);
          program(block, *shared);
        }
      },
      kernel);
}

EmulatedDevice::EmulatedDevice(Runner runner) : runner_(runner) { kernels::set_up_blas(); }

EmulatedDevice::~EmulatedDevice() = default;

void* EmulatedDevice::allocate(std::size_t bytes) {
  if (captures_) throw std::logic_error("memory is allocated in a capture");
  ++allocations_;
  void* const memory = memory_.allocate(bytes);
  pool_bytes_ = std::max(pool_bytes_, memory_.bytes());
  enqueue([memory, size = memory_.bytes(memory)] { std::memset(memory, 0xff, size); });
  return memory;
}

void EmulatedDevice::release(void* memory) noexcept {
  if (memory == nullptr) return;
  if (captures_) std::abort();
  enqueue([this, memory] { memory_.retire(memory); });
}

void EmulatedDevice::trim() {
  synchronize();
  pool_bytes_ = memory_.bytes();
}

void* EmulatedDevice::allocate_host(std::size_t bytes) {
  if (captures_) throw std::logic_error("memory is allocated in a capture");
  ++allocations_;
  void* const memory = host_memory_.allocate(bytes);
  host_memory_.set_accessible(true);
  return memory;
}
void EmulatedDevice::release_host(void* memory) noexcept {
  if (memory != nullptr) host_memory_.retire(memory);
}

void EmulatedDevice::zero(void* memory, std::size_t bytes) {
  ++launches_;
  enqueue([=] { std::memset(memory, 0, bytes); });
}
void EmulatedDevice::upload(void* to, const void* from_host, std::size_t bytes) {
  copy(to, from_host, bytes);
}
void EmulatedDevice::download(void* to_host, const void* from, std::size_t bytes) {
  copy(to_host, from, bytes);
}
void EmulatedDevice::copy(void* to, const void* from, std::size_t bytes) {
  ++launches_;
  enqueue([=] { std::memcpy(to, from, bytes); });
}

kernels::MemoryUse EmulatedDevice::memory_use() const {
  return {.pool = static_cast<std::int64_t>(pool_bytes_)};
}

std::unique_ptr<kernels::Mark> EmulatedDevice::make_mark() {
  return std::make_unique<EmulatedMark>(*this);
}

std::unique_ptr<kernels::Timeline> EmulatedDevice::make_timeline(std::size_t points) {
  return std::make_unique<EmulatedTimeline>(*this, points);
}

void EmulatedDevice::enqueue(Work work) {
  if (captures_) return captured_.push_back(std::move(work));
  queue_.push_back(std::move(work));
  ++queued_;
}

void EmulatedDevice::run_until(std::uint64_t ticket) {
  if (done_ >= ticket) return;
  const kernels::FloatingMode mode;
  memory_.set_accessible(true);
  while (done_ < ticket) {
    queue_.front()();
    queue_.pop_front();
    ++done_;
  }
  memory_.set_accessible(false);
}

bool EmulatedDevice::is_idle() {
  if (!queue_.empty()) run_until(done_ + 1);
  return queue_.empty();
}

void EmulatedDevice::synchronize() { run_until(queued_); }

void EmulatedDevice::with_memory(const Work& body) {
  synchronize();
  memory_.set_accessible(true);
  body();
  memory_.set_accessible(false);
}

void EmulatedDevice::launch(std::int64_t blocks, const kernels::cuda::Kernel& kernel) {
  if (blocks == 0) return;
  ++launches_;
  enqueue([run = runner_, blocks, kernel] { run(blocks, kernel); });
}

void EmulatedDevice::reserve_products(std::span<const kernels::cuda::Product> products) {
  for (const kernels::cuda::Product& product : products)
    planned_.insert(kernels::cuda::key_of(product));
}

void EmulatedDevice::multiply(const kernels::cuda::Product& product) {
  if (captures_ && !planned_.contains(kernels::cuda::key_of(product)))
    throw std::logic_error("a product is planned in a capture");
  ++launches_;
  enqueue([product] { multiply_now(product); });
}

void EmulatedDevice::decompose(const kernels::cuda::EigenProblem& problem) {
  ++launches_;
  ++decompositions_;
  enqueue([this, problem] {
    decompose_now(problem);
    defect_(problem);
  });
}

void EmulatedDevice::begin_capture() { captures_ = true; }
EmulatedDevice::Graph EmulatedDevice::end_capture() {
  captures_ = false;
  return std::exchange(captured_, {});
}
void EmulatedDevice::replay(const Graph& graph) {
  for (const Work& work : graph) enqueue(work);
}

}  // namespace shampoo::test
