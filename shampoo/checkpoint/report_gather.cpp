// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/report_gather.h"

#include <algorithm>

#include "kernels/buffer.h"
#include "shampoo/protocol/transferable_error.h"

namespace shampoo::checkpoint {
namespace {

/// Received in a round, from all ranks together.
constexpr std::int64_t round_bytes = std::int64_t{1} << 20;
constexpr std::int64_t fewest_bytes = 4096;

}  // namespace

struct ReportGather::Memory {
  kernels::Buffer send, receive;
  kernels::Settled settled;
};

ReportGather::ReportGather(kernels::Backend& backend, Communicator& communicator)
    : backend_(backend),
      communicator_(communicator),
      most_(std::max(fewest_bytes, round_bytes / communicator.size())),
      sent_(static_cast<std::size_t>(communicator.size())),
      received_(sent_.size()) {
  if (communicator.size() == 1) return;
  const bool receives = communicator.rank() == 0;
  const auto bytes = static_cast<std::size_t>(most_);
  memory_ = std::shared_ptr<Memory>(new Memory{
      kernels::Buffer(backend, bytes),
      kernels::Buffer(backend, receives ? bytes * sent_.size() : 1), kernels::Settled(backend)});
}

std::vector<std::string> ReportGather::run(const std::string& own,
                                           std::span<const std::int64_t> lengths) {
  if (communicator_.size() == 1) return {own};
  std::vector<std::string> texts(lengths.size());
  try {
    for (std::size_t r = 0; communicator_.rank() == 0 && r < texts.size(); ++r)
      texts[r].resize(static_cast<std::size_t>(lengths[r]));
    const std::int64_t longest = *std::ranges::max_element(lengths);
    for (std::int64_t begin = 0; begin < longest; begin += most_)
      send_round(own, begin, lengths, texts);
  } catch (const CommunicationError&) {
    throw;
  } catch (...) {  // the other ranks are waiting
    communicator_.abort("it could not send its part of a manifest: " + current_error().message);
    throw CommunicationError(communicator_.failure());
  }
  return texts;
}

/// Sends what the texts have from `begin` on.
void ReportGather::send_round(const std::string& own, std::int64_t begin,
                              std::span<const std::int64_t> lengths,
                              std::vector<std::string>& texts) {
  const auto part = [&](std::int64_t length) {
    return std::clamp<std::int64_t>(length - begin, 0, most_);
  };
  sent_.front() = part(static_cast<std::int64_t>(own.size()));
  if (communicator_.rank() == 0) std::ranges::transform(lengths, received_.begin(), part);
  if (sent_.front() > 0)
    backend_.upload(memory_->send.data(), own.data() + begin,
                    static_cast<std::size_t>(sent_.front()));
  communicator_
      .all_to_all(memory_->send.data(), sent_, memory_->receive.data(), received_,
                  {.stream = {backend_.stream()}, .keep_alive = memory_})
      .wait();
  const auto* from = static_cast<const std::byte*>(memory_->receive.data());
  for (std::size_t r = 0; r < texts.size(); from += received_[r++])
    if (received_[r] > 0)
      backend_.download(texts[r].data() + begin, from, static_cast<std::size_t>(received_[r]));
  backend_.synchronize();
  communicator_.check();
}

}  // namespace shampoo::checkpoint
