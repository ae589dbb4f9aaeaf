// SPDX-License-Identifier: Apache-2.0
#include "distributor/rendezvous/rendezvous.h"

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <thread>

#include "distributor/rendezvous/registration.h"
#include "distributor/rendezvous/rendezvous_store.h"
#include "distributor/system/host_name.h"
#include "distributor/system/library_version.h"

namespace shampoo::joining {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

/// Between two stores.
constexpr milliseconds pause = 100ms;

/// Why this rank cannot take part.
struct Fault {
  std::exception_ptr exception = {};
  std::string text = {};
};

Fault fault_of(const std::function<void()>& prepare) {
  try {
    prepare();
    return {};
  } catch (const std::exception& error) {
    return {std::current_exception(), error.what()};
  }
}

std::string place_of(const Detected& detected) {
  const bool bare_ipv6 = detected.host.find(':') != std::string::npos;
  return (bare_ipv6 ? "[" + detected.host + "]" : detected.host) + ":" +
         std::to_string(detected.port);
}

/// The store does not answer: says whose fault that may be.
[[noreturn]] void blame_server(const Detected& detected, const CommunicationError& error) {
  const bool rank_0_serves = !detected.agent_hosts_store && detected.rank != 0;
  throw CommunicationError(
      error.what() +
      std::string(rank_0_serves ? "; rank 0, which serves it, has not come or is gone" : ""));
}

}  // namespace

/// Whom rank 0 has not asked yet looks for another store where the one it found is gone: it may
/// have been that of an earlier attempt.
Meeting meet(const Detected& detected, const JoinOptions& options,
             const std::function<void()>& prepare) {
  const AgreementOptions terms{.job = detected.job,
                               .deadline = options.connect_deadline,
                               .begin = Clock::now(),
                               .place = place_of(detected)};
  const Clock::time_point end = terms.begin + terms.deadline;
  Hello self{.rank = detected.rank,
             .size = detected.size,
             .library = std::string(library_version()),
             .build = options.build,
             .host = host_name(),
             .process = getpid()};
  std::optional<Fault> fault;
  for (;; std::this_thread::sleep_for(pause)) {
    std::shared_ptr<Store> store;
    try {
      const auto left = std::chrono::ceil<milliseconds>(end - Clock::now());
      store = open_meeting_point(detected, std::max(left, 1ms));
    } catch (const CommunicationError& error) {
      blame_server(detected, error);
    }
    // Only now is it sure that the host's name can be looked up.
    if (!fault || fault->exception) fault = fault_of(prepare);
    self.fault = fault->text;
    try {
      const std::string generation = agree(*store, self, terms);
      const auto left = std::chrono::ceil<milliseconds>(end - Clock::now());
      return {store, generation, std::max(left, farewell_of(options.connect_deadline))};
    } catch (const CommunicationError& error) {
      if (fault->exception) std::rethrow_exception(fault->exception);
      if (dynamic_cast<const StoreLost*>(&error) == nullptr) throw;
      if (Clock::now() + pause >= end) blame_server(detected, error);
    }
  }
}

}  // namespace shampoo::joining
