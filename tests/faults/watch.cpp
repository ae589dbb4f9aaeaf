// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/watch.h"

#include <dlfcn.h>
#include <netdb.h>

#include <csignal>
#include <cstdlib>
#include <stdexcept>

namespace shampoo::test {
namespace {

const Orders default_orders = {
    {"progress", ""},        // folder of the pages; must be there
    {"model", "awkward"},    // or heavy: almost all time is spent in step()
    {"steps", "12"},         //
    {"pause", "0"},          // ms for the gradients of each step
    {"deadline", "60"},      // s, of a collective
    {"connect", "60"},       // s, to join
    {"checkpoints", ""},     // folder of checkpoints; none if empty
    {"every", "3"},          // steps from one of them to the next
    {"threaded", "no"},      // yes: saves while it trains
    {"leash", "no"},         // yes: dies with the process that started it
    {"fault", "none"},       // kill, stop, throw, abort
    {"fault_rank", "0"},     //
    {"fault_step", "6"},     // no matter up to constructing; has decompositions and a save
    {"fault_phase", "none"}  // see phase_names
};

/// When all ranks have registered, connecting over Gloo begins with the only look-up of an address
/// that gives no hints.
std::function<void()> before_connecting = [] {};

int restarts() {
  const char* const count = std::getenv("TORCHELASTIC_RESTART_COUNT");
  return count ? std::atoi(count) : 0;
}

}  // namespace

Orders read_orders(int count, char** words) {
  Orders orders = default_orders;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || !orders.contains(word.substr(0, equals)))
      throw std::invalid_argument("no such order: " + word);
    orders[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return orders;
}

int number(const Orders& orders, const std::string& name) { return std::stoi(orders.at(name)); }

Watch::Watch(const Orders& orders, int rank)
    : orders_(orders),
      page_(page_path(orders.at("progress"), rank, restarts())),
      rank_is_meant_(orders.at("fault") != "none" && rank == number(orders, "fault_rank")) {
  if (!rank_is_meant_) return;
  calls_.emplace([this](std::size_t, const std::string& call) {
    pass_call(call);
    return checkpoint::test::CallFault{};
  });
  before_connecting = [this] { pass(Phase::connecting); };
}

Watch::~Watch() {
  before_connecting = [] {};
}

void Watch::enter(Phase phase, int step) {
  page_.enter(phase, step);
  phase_ = phase;
  step_ = step;
  const bool step_is_meant = phase < Phase::gradients || step == number(orders_, "fault_step");
  if (step_is_meant && is_meant(phase)) strike();
}

void Watch::pass(Phase part) {
  if (!is_meant(part)) return;
  page_.enter(part, number(orders_, "fault_step"));
  strike();
}

void Watch::pass_download() {
  if (phase_ == Phase::saving && step_ == number(orders_, "fault_step")) pass(Phase::snapshotting);
}

void Watch::pass_call(const std::string& call) {
  const auto has = [&](const std::string& text) { return call.find(text) != call.npos; };
  if (!has("/step-" + orders_.at("fault_step") + ".tmp")) return;
  if (call.starts_with("write ") && has(".safetensors")) pass(Phase::persisting);
  if (call.starts_with("write ") && has("manifest.json")) pass(Phase::committing);
  if (call.starts_with("rename_to_new ")) pass(Phase::renaming);
}

bool Watch::is_meant(Phase phase) const {
  return rank_is_meant_ && name_of(phase) == orders_.at("fault_phase");
}

void Watch::strike() {
  rank_is_meant_ = false;
  const std::string& fault = orders_.at("fault");
  if (fault == "kill") std::raise(SIGKILL);
  if (fault == "stop") std::raise(SIGSTOP);
  if (fault == "throw") throw std::runtime_error("told to throw");
  if (fault == "abort") abort();
}

}  // namespace shampoo::test

// The linker takes this definition for the whole program.
extern "C" int getaddrinfo(const char* name, const char* service, const addrinfo* hints,
                           addrinfo** result) {
  if (hints == nullptr) shampoo::test::before_connecting();
  static const auto next =
      reinterpret_cast<decltype(&getaddrinfo)>(dlsym(RTLD_NEXT, "getaddrinfo"));
  return next(name, service, hints, result);
}
