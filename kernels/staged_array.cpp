// SPDX-License-Identifier: Apache-2.0
#include "kernels/staged_array.h"

#include <cstring>

namespace shampoo::kernels {

void StagedArrays::allocate() {
  host_.assign(end_, std::byte{0});
  sent_ = HostBuffer(backend_, end_);
  buffer_ = Buffer(backend_, end_);
}

void StagedArrays::upload() {
  if (end_ == 0 || (current_ && std::memcmp(host_.data(), sent_.data(), end_) == 0)) return;
  mark_->wait();
  std::memcpy(sent_.data(), host_.data(), end_);
  backend_.upload(buffer_.data(), sent_.data(), end_);
  mark_->set();
  current_ = true;
}

}  // namespace shampoo::kernels
