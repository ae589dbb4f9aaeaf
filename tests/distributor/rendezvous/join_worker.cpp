// SPDX-License-Identifier: Apache-2.0
// Joins its job, prints its rank, sums the ranks; fails on request.
//   join_worker [name=value ...], see Orders
// Prints "rank=0 size=2 local_rank=0 launcher=torchrun restarts=0 sum=1 description". Ends with 0;
// 3 after an exception, whose message it prints and leaves for the launcher; 4 for a wrong sum.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>

#include "distributor/rendezvous/detection.h"
#include "shampoo/shampoo.h"

namespace {

using namespace shampoo;

class Orders {
 public:
  Orders(int count, char** words) {
    for (int i = 1; i < count; ++i) {
      const std::string word = words[i];
      const std::size_t equals = word.find('=');
      if (equals == std::string::npos || !orders_.contains(word.substr(0, equals))) {
        throw std::invalid_argument("no such order: " + word);
      }
      orders_[word.substr(0, equals)] = word.substr(equals + 1);
    }
  }

  const std::string& text(const std::string& name) const { return orders_.at(name); }
  int number(const std::string& name) const { return std::stoi(text(name)); }

 private:
  std::map<std::string, std::string> orders_ = {
      {"launcher", "automatic"},   // torchrun, mpi, slurm, one_rank
      {"transport", "automatic"},  // mpi, gloo
      {"build", ""},
      {"own_address", ""},
      {"deadline", "60000"},          // ms, of a collective
      {"connect_deadline", "60000"},  // ms
      {"steps", "1"},                 // sums
      {"pause", "0"},                 // ms before each sum
      {"fault", "none"},              // die, stop, abort, throw, exit, crash
      {"fault_rank", "0"},
      {"fault_step", "0"},       // -1: before joining
      {"fault_restarts", "-1"},  // only after so many restarts; -1: always
  };
};

std::string variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

template <typename Value>
Value choice(const std::map<std::string, Value>& values, const std::string& name) {
  const auto found = values.find(name);
  if (found == values.end()) throw std::invalid_argument("no such choice: " + name);
  return found->second;
}

JoinOptions options_of(const Orders& orders) {
  const std::map<std::string, Launcher> launchers = {{"automatic", Launcher::automatic},
                                                     {"torchrun", Launcher::torchrun},
                                                     {"mpi", Launcher::mpi},
                                                     {"slurm", Launcher::slurm},
                                                     {"one_rank", Launcher::one_rank}};
  const std::map<std::string, Transport> transports = {
      {"automatic", Transport::automatic}, {"mpi", Transport::mpi}, {"gloo", Transport::gloo}};
  JoinOptions options;
  options.launcher = choice(launchers, orders.text("launcher"));
  options.transport = choice(transports, orders.text("transport"));
  options.build = orders.text("build");
  options.own_address = orders.text("own_address");
  options.deadline = std::chrono::milliseconds(orders.number("deadline"));
  options.connect_deadline = std::chrono::milliseconds(orders.number("connect_deadline"));
  return options;
}

/// `communicator` is null before joining.
void fail_if_requested(const Orders& orders, int rank, int step, Communicator* communicator) {
  const int restarts = orders.number("fault_restarts");
  const bool now =
      restarts < 0 || variable("TORCHELASTIC_RESTART_COUNT", "0") == std::to_string(restarts);
  if (!now || rank != orders.number("fault_rank") || step != orders.number("fault_step")) return;
  const std::string& fault = orders.text("fault");
  if (fault == "die") std::raise(SIGKILL);
  if (fault == "stop") std::raise(SIGSTOP);
  if (fault == "crash") std::raise(SIGSEGV);
  if (fault == "exit") std::_Exit(17);
  if (fault == "throw") throw std::runtime_error("told to throw");
  if (fault == "abort" && communicator != nullptr) communicator->abort("told to abort");
}

int work(const Orders& orders) {
  const JoinOptions options = options_of(orders);
  const rendezvous::Detected detected = rendezvous::detect(read_environment(), options);
  fail_if_requested(orders, detected.rank, -1, nullptr);
  const auto backend = cpu_backend();
  const auto ranks = join(*backend, options);
  if (local_rank_of_launcher(options) != ranks->local_rank()) return 5;
  double sum = 0;
  for (int step = 0; step < orders.number("steps"); ++step) {
    std::this_thread::sleep_for(std::chrono::milliseconds(orders.number("pause")));
    fail_if_requested(orders, ranks->rank(), step, ranks.get());
    sum = ranks->rank();
    ranks->all_reduce(&sum, 1, Type::float64);
    if (sum != ranks->size() * (ranks->size() - 1) / 2) return 4;
  }
  std::cout << "rank=" + std::to_string(ranks->rank()) + " size=" + std::to_string(ranks->size()) +
                   " local_rank=" + std::to_string(ranks->local_rank()) +
                   " launcher=" + std::string(name_of(detected.start)) +
                   " restarts=" + variable("TORCHELASTIC_RESTART_COUNT", "none") +
                   " sum=" + std::to_string(static_cast<int>(sum)) + " " + ranks->description() +
                   "\n"
            << std::flush;
  return 0;
}

}  // namespace

int main(int count, char** words) {
  try {
    return work(Orders(count, words));
  } catch (const std::exception& error) {
    std::cout << std::string("error: ") + error.what() + "\n" << std::flush;
    report_error(error.what());
    return 3;
  }
}
