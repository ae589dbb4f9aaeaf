// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace shampoo::joining {

/// The keys of one job, as agreement.h lists them.
struct AgreementKeys {
  explicit AgreementKeys(const std::string& job) : prefix("/shampoo/join/" + job + "/") {}

  std::string prefix;

  std::string hello(int rank) const { return prefix + "hello/" + std::to_string(rank); }
  std::string bell() const { return prefix + "bell"; }
  std::string call() const { return prefix + "call"; }
  std::string invite(const std::string& nonce) const { return prefix + "invite/" + nonce; }
  std::string answer(const std::string& generation, const std::string& nonce) const {
    return prefix + "answer/" + generation + "/" + nonce;
  }
  std::string objection(const std::string& generation) const {
    return prefix + "objection/" + generation;
  }
  std::string verdict(const std::string& generation) const {
    return prefix + "verdict/" + generation;
  }
  std::string told(const std::string& generation, const std::string& nonce) const {
    return prefix + "told/" + generation + "/" + nonce;
  }
};

}  // namespace shampoo::joining
