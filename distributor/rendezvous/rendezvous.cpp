// SPDX-License-Identifier: Apache-2.0
#include "distributor/rendezvous/rendezvous.h"

#include <algorithm>
#include <exception>
#include <random>
#include <thread>
#include <utility>

#include "distributor/communicator.h"
#include "distributor/rank_list.h"
#include "distributor/rendezvous/job_store.h"
#include "distributor/rendezvous/own_address.h"
#include "distributor/serialization.h"
#include "distributor/store/socket.h"
#include "distributor/store/store.h"
#include "distributor/store/synchronized_store.h"
#include "distributor/system/host_name.h"
#include "distributor/system/library_version.h"
#include "distributor/system/process_identity.h"
#include "distributor/system/time_left.h"

namespace shampoo::rendezvous {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

/// The store fails: adds who serves it.
[[noreturn]] void throw_store_failure(const Detected& detected, const CommunicationError& error) {
  const bool rank_0_serves = !detected.agent_hosts_store && detected.rank != 0;
  throw CommunicationError(
      error.what() +
      std::string(rank_0_serves ? "; rank 0, which serves it, has not come or is gone" : ""));
}

/// Throws unless there is a job.
void check(const RegistrationResult& result, const Detected& detected, milliseconds deadline) {
  if (!result.error.empty()) throw CommunicationError("join: " + result.error);
  if (result.missing_ranks.empty()) return;
  const bool serves = detected.rank == 0 && !detected.agent_hosts_store;
  const bool is_elsewhere = serves && store::own_addresses(detected.host, false).empty();
  throw CommunicationError(
      "join: " + rank_list(result.missing_ranks) + " did not come within " +
          seconds_text(deadline) + " to the store " +
          store::place_of(detected.host, detected.port) +
          (is_elsewhere ? ", which rank 0 serves, but whose host is no address of rank 0's" : ""),
      result.missing_ranks);
}

/// One process's part in a rendezvous.
class Attempt {
 public:
  Attempt(const Detected& detected, const JoinOptions& options, const std::string& transport)
      : self_{.library = std::string(library_version()),
              .rank = detected.rank,
              .size = detected.size,
              .transport = transport,
              .build = options.build,
              .process = {.host = host_name(),
                          .identity = this_process(),
                          .restarts = detected.restarts}},
        options_{.prefix = "/shampoo/join/" + detected.job,
                 .summarize =
                     [](const std::vector<ProcessInfo>& processes) {
                       Network network = choose_network(processes);
                       return serialize(network);
                     },
                 .end = Clock::now() + options.connect_deadline} {
    std::random_device random;
    self_.process.call = (std::uint64_t{random()} << 32) + random();
  }

  Clock::time_point end() const { return options_.end; }

  void prepare(const std::function<std::vector<std::string>()>& prepare) {
    try {
      self_.process.addresses = prepare();
    } catch (const std::exception& error) {
      exception_ = std::current_exception();
      options_.failure = error.what();
    }
  }

  RegistrationResult run(const std::shared_ptr<JobStore>& store) {
    options_.serves_store = store->server != nullptr;
    const std::shared_ptr<Store> client(store, store->client.get());
    BoundedStore bounded(std::make_shared<SynchronizedStore>(client), end());
    return register_rank(bounded, self_, options_);
  }

  /// Where the others reach this rank, after run().
  std::string address(const RegistrationResult& result) const {
    const std::vector<std::string>& addresses = self_.process.addresses;
    return addresses.empty() ? "" : own_address(addresses, deserialize<Network>(result.summary));
  }

  /// What prepare() threw.
  void rethrow() const {
    if (exception_) std::rethrow_exception(exception_);
  }

 private:
  Registration self_;
  RegistrationOptions options_;
  std::exception_ptr exception_;
};

}  // namespace

/// If the store fails before there is a result, it may have been that of an earlier attempt, whose
/// rank 0 has ended: looks for another one.
Rendezvous run_rendezvous(const Detected& detected, const JoinOptions& options,
                          const std::string& transport,
                          const std::function<std::vector<std::string>()>& prepare) {
  constexpr milliseconds pause = 100ms;
  Attempt attempt(detected, options, transport);
  for (bool prepared = false;; std::this_thread::sleep_for(pause)) {
    std::shared_ptr<JobStore> store;
    RegistrationResult result;
    try {
      store = open_store(detected, attempt.end());
      // Only now is it certain that the name of the host can be looked up.
      if (!std::exchange(prepared, true)) attempt.prepare(prepare);
      result = attempt.run(store);
    } catch (const CommunicationError& error) {
      attempt.rethrow();
      if (!store || Clock::now() + pause >= attempt.end()) throw_store_failure(detected, error);
      continue;
    }
    attempt.rethrow();
    check(result, detected, options.connect_deadline);
    const milliseconds least = std::clamp(options.connect_deadline / 4, 1ms, 5'000ms);
    return {.store = {store, store->client.get()},
            .prefix = result.prefix,
            .address = attempt.address(result),
            .left = time_left(attempt.end(), least)};
  }
}

}  // namespace shampoo::rendezvous
