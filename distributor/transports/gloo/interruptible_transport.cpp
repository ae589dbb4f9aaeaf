// SPDX-License-Identifier: Apache-2.0
#include "distributor/transports/gloo/interruptible_transport.h"

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

namespace shampoo {

class InterruptibleTransport::Buffer final : public gloo::transport::UnboundBuffer {
 public:
  Buffer(InterruptibleTransport& transport, std::unique_ptr<UnboundBuffer> buffer)
      : UnboundBuffer(buffer->ptr, buffer->size),
        transport_(transport),
        buffer_(std::move(buffer)) {
    const std::lock_guard lock(transport_.mutex_);
    transport_.buffers_.insert(this);
  }
  ~Buffer() override {
    const std::lock_guard lock(transport_.mutex_);
    transport_.buffers_.erase(this);
  }

  void interrupt() {
    buffer_->abortWaitRecv();
    buffer_->abortWaitSend();
  }

  bool waitRecv(int* rank, std::chrono::milliseconds timeout) override {
    return wait([&] { return buffer_->waitRecv(rank, timeout); });
  }
  bool waitSend(int* rank, std::chrono::milliseconds timeout) override {
    return wait([&] { return buffer_->waitSend(rank, timeout); });
  }
  void abortWaitRecv() override { buffer_->abortWaitRecv(); }
  void abortWaitSend() override { buffer_->abortWaitSend(); }
  void send(int to, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
    buffer_->send(to, slot, offset, bytes);
  }
  void recv(int from, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
    buffer_->recv(from, slot, offset, bytes);
  }
  void recv(std::vector<int> from, std::uint64_t slot, std::size_t offset,
            std::size_t bytes) override {
    buffer_->recv(std::move(from), slot, offset, bytes);
  }

 private:
  /// What aborts a wait of Gloo's is forgotten by the wait.
  template <typename Wait>
  bool wait(const Wait& complete) {
    if (transport_.interrupted_ || !complete())
      throw std::runtime_error("the connections are closed");
    return true;
  }

  InterruptibleTransport& transport_;
  std::unique_ptr<UnboundBuffer> buffer_;
};

InterruptibleTransport::InterruptibleTransport(std::shared_ptr<gloo::transport::Context> transport)
    : Context(transport->rank, transport->size), transport_(std::move(transport)) {}

std::unique_ptr<gloo::transport::Pair>& InterruptibleTransport::getPair(int peer) {
  return transport_->getPair(peer);
}

std::unique_ptr<gloo::transport::Pair>& InterruptibleTransport::createPair(int peer) {
  return transport_->createPair(peer);
}

std::unique_ptr<gloo::transport::UnboundBuffer> InterruptibleTransport::createUnboundBuffer(
    void* data, std::size_t bytes) {
  return std::make_unique<Buffer>(*this, transport_->createUnboundBuffer(data, bytes));
}

void InterruptibleTransport::interrupt() noexcept {
  const std::lock_guard lock(mutex_);
  interrupted_ = true;
  for (Buffer* buffer : buffers_) buffer->interrupt();
}

}  // namespace shampoo
