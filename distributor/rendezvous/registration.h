// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

#include "distributor/error.h"
#include "distributor/rendezvous/hello.h"
#include "distributor/store/store.h"

namespace shampoo::joining {

/// Ranks agree, over a store that may be full of old keys, on which processes make up the job.
///
/// Nothing that lies in the store is believed: a process counts only after it has answered a
/// question that was made up in this very attempt. Below "/shampoo/join/<job>/", where an id is 16
/// random bytes in hexadecimal digits, a nonce the id of one attempt of one process, and a
/// generation the id of one attempt of rank 0 to bring the ranks together:
///
///   hello/<rank>                     Hello of the process that thinks it has the rank
///   bell                             changes with every hello
///   call                             "<generation> <size>": what rank 0 is about
///   invite/<nonce>                   generation that the process is asked to take part in
///   answer/<generation>/<nonce>      Hello: "I live, and wait for the verdict"
///   objection/<generation>           Hello of a process that knows another world size, or whose
///                                    own hello is written over
///   verdict/<generation>             see Verdict
///   told/<generation>/<nonce>        the process has read a refusal
///
/// Rank 0 invites whoever said hello. Where two processes have answered as one rank, it asks all
/// again, in a new generation: if both still answer the rank is taken twice, otherwise one of them
/// has died. Only rank 0 polls; the others wait in the store, waking up every 2 s at most.
struct AgreementOptions {
  std::string job = {};
  /// Rank 0 gives up then, and the others farewell_of() it later: time to hear why.
  std::chrono::milliseconds deadline = std::chrono::minutes(5);
  /// From when it counts.
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  /// The store's "host:port" in messages, as all ranks know it; its description unless set.
  std::string place = {};
};

/// A quarter, from 1 ms to 5 s.
std::chrono::milliseconds farewell_of(std::chrono::milliseconds deadline);

/// The store is gone, and rank 0 had not asked this process yet: nothing is lost, and another store
/// may come in its place.
class StoreLost : public CommunicationError {
 public:
  using CommunicationError::CommunicationError;
};

/// Returns the generation: 32 hexadecimal digits, the same on all ranks, never seen before.
/// Collective. `self.nonce` is set here.
/// Throws CommunicationError on all ranks that can be reached, naming ranks and the store: where
/// some do not come, where they do not fit together, where two processes have one rank, where one
/// has a fault. Throws StoreLost, on any rank but 0.
std::string agree(Store& store, Hello self, const AgreementOptions& options);

}  // namespace shampoo::joining
