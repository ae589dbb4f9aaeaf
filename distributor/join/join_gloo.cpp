// SPDX-License-Identifier: Apache-2.0
#include "distributor/join/join_gloo.h"

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <thread>

#include "distributor/gloo_listener.h"
#include "distributor/host_name.h"
#include "distributor/join/agreement.h"
#include "distributor/join/meeting_point.h"
#include "distributor/join/own_address.h"
#include "distributor/library_version.h"

namespace shampoo::joining {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

/// Between two stores.
constexpr milliseconds pause = 100ms;

/// Where the other ranks will reach this one, or why they cannot.
struct Reach {
  std::string address = {};
  std::shared_ptr<gloo::transport::Device> device = {};
  std::exception_ptr fault = {};
  std::string fault_text = {};
};

std::string own_address(const Detected& detected, const JoinOptions& options) {
  if (!options.own_address.empty()) return options.own_address;
  if (detected.size == 1) return "127.0.0.1";
  // Where ranks meet at a loopback address they are all here.
  const bool loopback =
      detected.host == "localhost" || detected.host == "::1" || detected.host.starts_with("127.");
  const bool several_hosts = !loopback && detected.local_size != detected.size;
  return own_address_towards(detected.host, detected.port, several_hosts);
}

Reach listen(const Detected& detected, const JoinOptions& options) {
  Reach reach;
  try {
    reach.address = own_address(detected, options);
    reach.device = listen_gloo(reach.address);
  } catch (const std::exception& error) {
    reach.fault = std::current_exception();
    reach.fault_text = error.what();
  }
  return reach;
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

struct Meeting {
  std::shared_ptr<Store> store;
  Reach reach;
  std::string generation;
};

/// Whom rank 0 has not asked yet looks for another store where the one it found is gone: it may
/// have been that of an earlier attempt.
Meeting meet(const Detected& detected, Hello self, const JoinOptions& options,
             const AgreementOptions& terms) {
  Meeting meeting;
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(terms.begin + terms.deadline - Clock::now());
    try {
      meeting.store = open_meeting_point(detected, std::max(left, 1ms));
    } catch (const CommunicationError& error) {
      blame_server(detected, error);
    }
    // Only now is it sure that the host's name can be looked up.
    if (!meeting.reach.device) meeting.reach = listen(detected, options);
    self.fault = meeting.reach.fault_text;
    try {
      meeting.generation = agree(*meeting.store, self, terms);
      return meeting;
    } catch (const CommunicationError& error) {
      if (meeting.reach.fault) std::rethrow_exception(meeting.reach.fault);
      if (dynamic_cast<const StoreLost*>(&error) == nullptr) throw;
      if (Clock::now() + pause >= terms.begin + terms.deadline) blame_server(detected, error);
    }
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace

std::unique_ptr<Communicator> join_gloo(const Detected& detected, const JoinOptions& options) {
  const Clock::time_point begin = Clock::now();
  const Hello self{.rank = detected.rank,
                   .size = detected.size,
                   .library = std::string(library_version()),
                   .build = options.build,
                   .host = host_name(),
                   .process = getpid()};
  const Meeting meeting = meet(detected, self, options,
                               {.job = detected.job,
                                .deadline = options.connect_deadline,
                                .begin = begin,
                                .place = place_of(detected)});
  const auto left =
      std::chrono::ceil<milliseconds>(begin + options.connect_deadline - Clock::now());
  return gloo_communicator(
      {.rank = detected.rank, .size = detected.size, .local_rank = detected.local_rank},
      meeting.store, meeting.reach.device,
      {.prefix = "/shampoo/gloo/" + meeting.generation + "/",
       .host = meeting.reach.address,
       .deadline = std::max(left, farewell_of(options.connect_deadline)),
       .store_server = detected.agent_hosts_store ? "" : "rank 0 of the job"});
}

}  // namespace shampoo::joining
