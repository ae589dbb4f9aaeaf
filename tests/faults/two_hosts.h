// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace shampoo::test {

/// Two network namespaces, which are like two hosts, with one link between them. Both are gone in
/// the end. Needs root and the program ip.
class TwoHosts {
 public:
  /// Throws std::runtime_error, saying why, where this machine does not permit it.
  TwoHosts();
  ~TwoHosts();
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;

  /// The command line that runs `words` on host 0 or 1.
  std::vector<std::string> on(int host, const std::vector<std::string>& words) const;
  static std::string address(int host) { return "10.213.0." + std::to_string(host + 1); }

  void cut_link() const { set_link("down"); }
  void mend_link() const { set_link("up"); }

 private:
  std::string name(int host) const { return name_ + "-" + std::to_string(host); }
  void make() const;
  void remove() const;
  void set_link(const std::string& state) const;

  std::string name_;
};

}  // namespace shampoo::test
