// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/two_hosts.h"

#include <unistd.h>

#include <stdexcept>

#include "tests/distributor/rendezvous/processes.h"

namespace shampoo::test {

namespace {

const std::string program = "/sbin/ip";
const std::string device = "veth0";

/// Empty if it went well, else why not.
std::string complaint(std::vector<std::string> words) {
  words.insert(words.begin(), program);
  Process process(words, {});
  if (process.wait() == 0) return {};
  return process.output().empty() ? "no " + program : process.output();
}

void run(const std::vector<std::string>& words) {
  if (const std::string why = complaint(words); !why.empty()) throw std::runtime_error(why);
}

}  // namespace

TwoHosts::TwoHosts() : name_("shampoo-" + std::to_string(getpid())) {
  try {
    make();
  } catch (...) {
    remove();
    throw;
  }
}

TwoHosts::~TwoHosts() { remove(); }

void TwoHosts::make() const {
  for (const int host : {0, 1}) run({"netns", "add", name(host)});
  run({"link", "add", device, "netns", name(0), "type", "veth", "peer", "name", device, "netns",
       name(1)});
  for (const int host : {0, 1}) {
    run({"-n", name(host), "address", "add", address(host) + "/24", "dev", device});
    run({"-n", name(host), "link", "set", "lo", "up"});
    run({"-n", name(host), "link", "set", device, "up"});
    run({"netns", "exec", name(host), "/bin/true"});
  }
}

void TwoHosts::remove() const {
  for (const int host : {0, 1}) complaint({"netns", "delete", name(host)});
}

std::vector<std::string> TwoHosts::on(int host, const std::vector<std::string>& words) const {
  std::vector<std::string> all{program, "netns", "exec", name(host)};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

void TwoHosts::set_link(const std::string& state) const {
  run({"-n", name(0), "link", "set", device, state});
}

}  // namespace shampoo::test
