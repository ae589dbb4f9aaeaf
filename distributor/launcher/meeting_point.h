// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "distributor/launcher/launch_options.h"
#include "distributor/store/store.h"
#include "distributor/store/store_server.h"

namespace shampoo::launcher {

/// This launcher cannot take part in the job. One line.
class Refused : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The store through which the launchers of a job talk; not that of the workers.
struct MeetingPoint {
  std::unique_ptr<StoreServer> server;  ///< empty where another node serves, or there is but one
  std::unique_ptr<Store> store;
  bool host = true;   ///< whether this launcher decides for all
  std::string place;  ///< "host:port", for messages
};

/// Opens it or connects to it. Waits until it is there, at most options.times.join; looks at
/// `interrupted` every second, and returns nothing when that is true. Throws Refused where what
/// answers is not this job, std::system_error where the port of the host is taken.
std::optional<MeetingPoint> meet(const LaunchOptions& options,
                                 const std::function<bool()>& interrupted);

}  // namespace shampoo::launcher
