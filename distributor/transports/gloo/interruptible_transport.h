// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gloo/transport/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <set>

namespace shampoo {

/// A transport of Gloo's whose waits interrupt() ends. Closing its connections does not end all of
/// them: a connection that closes tells the operations that have not begun, but neither the one it
/// is receiving nor those it is sending (gloo/transport/tcp/pair.cc, Pair::signalException()).
class InterruptibleTransport final : public gloo::transport::Context {
 public:
  explicit InterruptibleTransport(std::shared_ptr<gloo::transport::Context> transport);

  std::unique_ptr<gloo::transport::Pair>& getPair(int peer) override;
  std::unique_ptr<gloo::transport::Pair>& createPair(int peer) override;
  /// The transport must outlive the buffer.
  std::unique_ptr<gloo::transport::UnboundBuffer> createUnboundBuffer(void* data,
                                                                      std::size_t bytes) override;

  /// From now on waits throw std::runtime_error, pending ones and others. From any thread.
  void interrupt() noexcept;

 private:
  class Buffer;

  std::shared_ptr<gloo::transport::Context> transport_;
  std::atomic<bool> interrupted_ = false;
  std::mutex mutex_;  ///< guards the set
  std::set<Buffer*> buffers_;
};

}  // namespace shampoo
