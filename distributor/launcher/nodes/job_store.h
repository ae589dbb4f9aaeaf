// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <stdexcept>
#include <string>

#include "distributor/launcher/command_line/launch_options.h"
#include "distributor/store/store.h"
#include "distributor/store/store_server.h"

namespace shampoo::launcher {

/// This launcher cannot take part in the job. One line.
class Refused : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The one store of a job, for launchers and workers.
struct JobStore {
  std::unique_ptr<StoreServer> server;  ///< on the host only
  std::unique_ptr<Store> store;
  std::string address;  ///< "host:port", for messages

  /// True on the launcher that serves the store and decides for all.
  bool is_host() const { return server != nullptr; }
};

/// Serves the store or connects to it. Waits for it, at most options.times.join. Throws Refused
/// where nothing answers, std::system_error where the host's port is taken.
JobStore open_job_store(const LaunchOptions& options);

}  // namespace shampoo::launcher
