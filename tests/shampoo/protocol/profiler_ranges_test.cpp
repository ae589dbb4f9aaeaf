// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/shampoo/protocol/device_job.h"

namespace shampoo::test {
namespace {

/// The names that are open on a device, joined, whenever one is added.
class RangeRecorder final : public CountingBackend {
 public:
  RangeRecorder(kernels::Backend& backend, const EmulatedDevice& device)
      : CountingBackend(backend), device_(device) {}

  void begin_range(const char* name) override {
    CountingBackend::begin_range(name);
    std::string path;
    for (const std::string& open : device_.ranges()) path += (path.empty() ? "" : "/") + open;
    paths.insert(path);
  }

  std::set<std::string> paths;

 private:
  const EmulatedDevice& device_;
};

TEST(RangesOfAProfiler, NameStepsVirtualGroupsAndWhatTheyDo) {
  DeviceJob job(DeviceJob::Shapes{{9, 8}, {13}, {6, 5}});
  RangeRecorder backend(job.device_backend, job.device);
  const auto ranks = single_rank_communicator(MemoryKind::cuda);
  std::vector<ParameterGroup> groups(2);
  groups[0] = {.parameters = {job.model.parameter(0)}, .recipe = quick_recipe()};
  groups[1] = {.parameters = {job.model.parameter(2)}, .recipe = recipes::muon()};
  Optimizer optimizer(backend, *ranks, groups);
  EXPECT_TRUE(backend.paths.empty());

  optimizer.step();
  EXPECT_TRUE(backend.paths.contains("Optimizer::step"));
  EXPECT_FALSE(backend.paths.contains("Optimizer::step/virtual group 1/roots"));
  for (int step = 0; step < 3; ++step) optimizer.step();

  for (const char* path :
       {"scan", "virtual group 0", "virtual group 0/factors", "virtual group 0/roots",
        "virtual group 0/filter", "virtual group 0/precondition", "virtual group 0/update",
        "virtual group 1", "virtual group 1/precondition", "virtual group 1/update"})
    EXPECT_TRUE(backend.paths.contains(std::string("Optimizer::step/") + path)) << path;
  EXPECT_TRUE(job.device.ranges().empty()) << "all are closed";
}

}  // namespace
}  // namespace shampoo::test
