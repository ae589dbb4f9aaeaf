// SPDX-License-Identifier: Apache-2.0
#include "kernels/memory.h"

#include <chrono>
#include <vector>

namespace shampoo::kernels {

namespace {

/// Nothing is ever pending.
class ImmediateMark final : public Mark {
 public:
  void set() override {}
  void wait() override {}
};

class HostTimeline final : public Timeline {
 public:
  explicit HostTimeline(std::size_t points) : times_(points) {}
  void mark(std::size_t point) override { times_[point] = Clock::now(); }
  std::optional<double> seconds(std::size_t from, std::size_t to) override {
    if (times_[from] == Clock::time_point() || times_[to] == Clock::time_point()) return {};
    return std::chrono::duration<double>(times_[to] - times_[from]).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::vector<Clock::time_point> times_;
};

}  // namespace

void* Memory::allocate_host(std::size_t bytes) { return allocate(bytes); }
void Memory::release_host(void* memory) noexcept { release(memory); }
std::unique_ptr<Mark> Memory::make_mark() { return std::make_unique<ImmediateMark>(); }
std::unique_ptr<Timeline> Memory::make_timeline(std::size_t points) {
  return std::make_unique<HostTimeline>(points);
}

}  // namespace shampoo::kernels
