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

struct Meeting {
  std::shared_ptr<Store> store;
  std::string generation;
};

/// Whom rank 0 has not asked yet looks for another store where the one it found is gone: it may
/// have been that of an earlier attempt.
Meeting meet(const Detected& detected, const Hello& self, const AgreementOptions& options) {
  for (;;) {
    const auto left =
        std::chrono::ceil<milliseconds>(options.begin + options.deadline - Clock::now());
    const std::shared_ptr<Store> store = open_meeting_point(detected, std::max(left, 1ms));
    try {
      return {store, agree(*store, self, options)};
    } catch (const StoreLost&) {
      const auto end = options.begin + options.deadline;
      if (Clock::now() + 100ms >= end) throw;
    }
    std::this_thread::sleep_for(100ms);
  }
}

}  // namespace

std::unique_ptr<Communicator> join_gloo(const Detected& detected, const JoinOptions& options) {
  const Clock::time_point begin = Clock::now();
  const Reach reach = listen(detected, options);
  const Hello self{.rank = detected.rank,
                   .size = detected.size,
                   .library = std::string(library_version()),
                   .build = options.build,
                   .host = host_name(),
                   .process = getpid(),
                   .fault = reach.fault_text};
  Meeting meeting;
  try {
    meeting = meet(detected, self,
                   {.job = detected.job,
                    .deadline = options.connect_deadline,
                    .begin = begin,
                    .place = place_of(detected)});
  } catch (const CommunicationError&) {
    if (reach.fault) std::rethrow_exception(reach.fault);
    throw;
  }
  const auto left =
      std::chrono::ceil<milliseconds>(begin + options.connect_deadline - Clock::now());
  return gloo_communicator(
      {.rank = detected.rank, .size = detected.size, .local_rank = detected.local_rank},
      meeting.store, reach.device,
      {.prefix = "/shampoo/gloo/" + meeting.generation + "/",
       .host = reach.address,
       .deadline = std::max(left, farewell_of(options.connect_deadline)),
       .store_server = detected.agent_hosts_store ? "" : "rank 0 of the job"});
}

}  // namespace shampoo::joining
