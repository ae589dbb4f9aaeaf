// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/prediction/planned_device.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

namespace shampoo::test {

namespace {

using namespace kernels::cuda;

/// All that it waits for is done.
class PlannedMark final : public kernels::Mark {
 public:
  void set() override {}
  void wait() override {}
};

/// Knows no time.
class PlannedTimeline final : public kernels::Timeline {
 public:
  void mark(std::size_t) override {}
  std::optional<double> seconds(std::size_t, std::size_t) override { return std::nullopt; }
};

/// Kernels that decide whether a step takes place.
template <typename Program>
constexpr bool decides = std::is_same_v<Program, ReduceScan> || std::is_same_v<Program, Admit> ||
                         std::is_same_v<Program, Compare>;

const char* name_of_type(Type type) {
  constexpr std::array names = {"float64", "float32", "bfloat16", "float16"};
  constexpr std::array types = {Type::float64, Type::float32, Type::bfloat16, Type::float16};
  return names[static_cast<std::size_t>(std::ranges::find(types, type) - types.begin())];
}

}  // namespace

PlannedDevice::~PlannedDevice() {
  for (const auto& [memory, bytes] : memory_) munmap(memory, bytes);
}

std::vector<Launch> PlannedDevice::take() { return std::exchange(launches_, {}); }

void* PlannedDevice::allocate(std::size_t bytes) {
  const std::size_t size = std::max<std::size_t>(bytes, 1);
  void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_[memory] = size;
  return memory;
}

void PlannedDevice::release(void* memory) noexcept {
  const auto found = memory_.find(memory);
  if (found == memory_.end()) return;
  munmap(memory, found->second);
  memory_.erase(found);
}

void PlannedDevice::note(std::string name, std::int64_t blocks, const KernelCost& cost) {
  launches_.push_back(
      {ranges_.empty() ? std::string() : ranges_.back(), std::move(name), blocks, cost});
}

void PlannedDevice::upload(void* to, const void* from_host, std::size_t bytes) {
  std::memcpy(to, from_host, bytes);
  note("copy", 0, {static_cast<double>(bytes), 0});
}
void PlannedDevice::download(void* to_host, const void* from, std::size_t bytes) {
  upload(to_host, from, bytes);
}
void PlannedDevice::copy(void* to, const void* from, std::size_t bytes) { upload(to, from, bytes); }

std::unique_ptr<kernels::Mark> PlannedDevice::make_mark() {
  return std::make_unique<PlannedMark>();
}

std::unique_ptr<kernels::Timeline> PlannedDevice::make_timeline(std::size_t) {
  return std::make_unique<PlannedTimeline>();
}

void PlannedDevice::launch(std::int64_t blocks, const Kernel& kernel) {
  if (blocks == 0) return;
  note(name_of(kernel), blocks, cost_of(kernel));
  std::visit(
      [&](const auto& program) {
        using Program = std::remove_cvref_t<decltype(program)>;
        if constexpr (decides<Program>) {
          const auto shared = std::make_unique<typename Program::Shared>();
          for (std::int64_t index = 0; index < blocks; ++index) {
            HostThreads<Program::threads> block(index);
            program(block, *shared);
          }
        }
      },
      kernel);
}

void PlannedDevice::multiply(const Product& product) {
  note(std::string("product ") + name_of_type(product.a.type), 0, cost_of(product));
}

void PlannedDevice::decompose(const EigenProblem& problem) {
  *problem.failed = 0;
  note("decomposition", 0, {});
}

}  // namespace shampoo::test
