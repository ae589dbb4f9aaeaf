// SPDX-License-Identifier: Apache-2.0
#include "tests/support/device/emulated_device.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "kernels/cpu/blas/blas_setup.h"
#include "kernels/cpu/floating_mode.h"
#include "tests/support/device/emulated_numerics.h"

namespace shampoo::test {

namespace {

constexpr std::size_t arena_bytes = std::size_t{8} << 30;

std::size_t rounded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

class EmulatedMark final : public kernels::Mark {
 public:
  explicit EmulatedMark(EmulatedDevice& device) : device_(device) {}
  void set() override { ticket_ = device_.queued_; }
  void wait() override { device_.run_until(ticket_); }

 private:
  EmulatedDevice& device_;
  std::uint64_t ticket_ = 0;
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

EmulatedDevice::EmulatedDevice(Runner runner) : runner_(runner) {
  kernels::set_up_blas();
  void* const arena =
      mmap(nullptr, arena_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (arena == MAP_FAILED) throw std::bad_alloc();
  arena_ = static_cast<char*>(arena);
}

EmulatedDevice::~EmulatedDevice() { munmap(arena_, arena_bytes); }

void EmulatedDevice::protect(bool accessible) {
  if (used_ > 0) mprotect(arena_, used_, accessible ? PROT_READ | PROT_WRITE : PROT_NONE);
}

void* EmulatedDevice::allocate(std::size_t bytes) {
  ++allocations_;
  const std::size_t size = rounded(bytes);
  char* at = nullptr;
  if (const auto found = free_.find(size); found != free_.end()) {
    at = found->second;
    free_.erase(found);
  } else {
    if (used_ + size > arena_bytes) throw std::bad_alloc();
    at = arena_ + used_;
    used_ += size;
  }
  blocks_[at] = size;
  enqueue([at, size] { std::memset(at, 0xff, size); });
  return at;
}

void EmulatedDevice::release(void* memory) noexcept {
  if (memory == nullptr) return;
  const auto found = blocks_.find(static_cast<char*>(memory));
  if (found == blocks_.end()) std::abort();
  free_.emplace(found->second, found->first);
  blocks_.erase(found);
}

void* EmulatedDevice::allocate_host(std::size_t bytes) {
  ++allocations_;
  void* const memory = std::aligned_alloc(256, rounded(bytes));
  if (memory == nullptr) throw std::bad_alloc();
  return std::memset(memory, 0, bytes);
}
void EmulatedDevice::release_host(void* memory) noexcept { std::free(memory); }

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
  return {.pool = static_cast<std::int64_t>(used_)};
}

std::unique_ptr<kernels::Mark> EmulatedDevice::make_mark() {
  return std::make_unique<EmulatedMark>(*this);
}

void EmulatedDevice::enqueue(Work work) {
  if (captures_) return captured_.push_back(std::move(work));
  queue_.push_back(std::move(work));
  ++queued_;
}

void EmulatedDevice::run_until(std::uint64_t ticket) {
  if (done_ >= ticket) return;
  const kernels::FlushDenormals mode;
  protect(true);
  while (done_ < ticket) {
    queue_.front()();
    queue_.pop_front();
    ++done_;
  }
  protect(false);
}

bool EmulatedDevice::is_idle() {
  if (!queue_.empty()) run_until(done_ + 1);
  return queue_.empty();
}

void EmulatedDevice::synchronize() { run_until(queued_); }

void EmulatedDevice::with_memory(const Work& body) {
  synchronize();
  protect(true);
  body();
  protect(false);
}

void EmulatedDevice::launch(std::int64_t blocks, const kernels::cuda::Kernel& kernel) {
  if (blocks == 0) return;
  ++launches_;
  enqueue([run = runner_, blocks, kernel] { run(blocks, kernel); });
}

void EmulatedDevice::multiply(const kernels::cuda::Product& product) {
  ++launches_;
  enqueue([product] { multiply_now(product); });
}

void EmulatedDevice::decompose(const kernels::cuda::EigenProblem& problem) {
  ++launches_;
  enqueue([problem] { decompose_now(problem); });
}

void EmulatedDevice::begin_capture() { captures_ = true; }
std::vector<EmulatedDevice::Work> EmulatedDevice::end_capture() {
  captures_ = false;
  return std::exchange(captured_, {});
}
void EmulatedDevice::replay(const std::vector<Work>& graph) {
  for (const Work& work : graph) enqueue(work);
}

}  // namespace shampoo::test
