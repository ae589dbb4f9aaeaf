// SPDX-License-Identifier: Apache-2.0
// Linked with what a build without NCCL has in their place.
#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>

#include "distributor/transports/nccl/nccl.h"

namespace shampoo::test {
namespace {

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "none";
}

TEST(ABuildWithoutNccl, NamesTheScriptAndTheOption) {
  EXPECT_FALSE(has_nccl());
  for (const std::string& text : {refusal([] { nccl_communicator(0, 1, nullptr); }),
                                  refusal([] { nccl_communicator_of(nullptr); })}) {
    EXPECT_NE(text.find("tests/setup_cuda.sh"), std::string::npos) << text;
    EXPECT_NE(text.find("-DSHAMPOO_CUDA=ON"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace shampoo::test
