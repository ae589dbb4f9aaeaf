// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/backend.h"

namespace shampoo {

/// A stream of the device on whose memory a collective works; empty for host memory. Borrowed.
struct StreamRef {
  void* handle = nullptr;
};

class Communicator;

/// Names one started collective. The communicator must outlive it.
class Completion {
 public:
  Completion(Communicator& communicator, std::uint64_t ticket)
      : communicator_(&communicator), ticket_(ticket) {}

  /// Waits until the collective has completed on this rank. Throws CommunicationError.
  void wait();

 private:
  Communicator* communicator_;
  std::uint64_t ticket_;
};

/// Ranks that work together. Works on bytes, which are borrowed until the completion.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Where buffers must lie.
  virtual Memory memory() const = 0;

  /// Collective. `everyone` holds counts[r] bytes (0 allowed) for every rank r, back to back; each
  /// rank has written its own part and gets those of the others. Runs in order with `stream`.
  virtual Completion all_gather(void* everyone, std::span<const std::int64_t> counts,
                                StreamRef stream) = 0;

  /// What Completion::wait() does.
  virtual void wait(std::uint64_t ticket) = 0;
};

inline void Completion::wait() { communicator_->wait(ticket_); }

/// One rank. Every collective has completed when its call returns. `memory` is where buffers lie:
/// that of the backend, of either kind.
std::unique_ptr<Communicator> one_rank(Memory memory = Memory::host);

}  // namespace shampoo
