// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "distributor/call_record.h"
#include "distributor/communicator.h"
#include "distributor/transports/mpi/mpi_handle.h"

namespace shampoo {

/// Messages about failures between the ranks of a communicator, on an MPI communicator of their
/// own. MPI reports neither that a peer has died or stopped, nor that ranks are in different calls.
///
/// A rank that waits long tells the next one in which call, so that two neighbours in different
/// calls find out. A rank that gives up sends a notice to all others, on which they give up and
/// send theirs; those from which none arrives in time are missing.
class MpiPeers {
 public:
  MpiPeers(MpiHandle duplicate, int rank, int size);
  ~MpiPeers();
  MpiPeers(const MpiPeers&) = delete;
  MpiPeers& operator=(const MpiPeers&) = delete;

  /// Tells the next rank that this one waits in `call`.
  void announce(const CollectiveCall& call);
  /// Receives what has arrived. Returns why `call` cannot complete; empty if nothing says so.
  std::string receive(const CollectiveCall& call);
  /// Exchanges notices with the other ranks, for at most `longest`; the error that they establish.
  CommunicationError give_up(const CollectiveCall& call, const std::string& reason,
                             std::chrono::milliseconds longest);
  /// Sends the reason to all others. Callable from any thread if MPI's thread level allows it; does
  /// not wait.
  void abort(std::string_view reason);
  /// After a failure: peers may still send.
  void leak() { comm_.leak(); }

 private:
  struct Notice {
    enum class Kind : std::int32_t { none, waits, gave_up, aborted } kind = Kind::none;
    CallRecord call;
    std::array<char, 508> reason{};
  };

  Notice make_notice(Notice::Kind kind, const CollectiveCall& call, std::string_view reason) const;
  std::unique_ptr<MpiCall<Notice>> send(const Notice& notice, int to) const;
  std::vector<std::unique_ptr<MpiCall<Notice>>> send_all(const Notice& notice) const;
  void receive_all();
  CommunicationError judge(const std::string& reason) const;

  MpiHandle comm_;
  const int rank_, size_;
  std::vector<Notice> notices_;  ///< by rank: why it gave up
  CallRecord previous_;          ///< where the previous rank waits
  std::vector<std::unique_ptr<MpiCall<Notice>>> sent_;
};

}  // namespace shampoo
