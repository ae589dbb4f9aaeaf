// SPDX-License-Identifier: Apache-2.0
// A trainer that brings its own collectives: processes around one hub, joined by socket pairs. One
// function, all_gather, is enough. The same training on threads of one process gives the same bits.
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "examples/checksum.h"
#include "shampoo/distributor/communicator.h"
#include "shampoo/shampoo.h"

namespace {

/// What a rank has: sockets to all other ranks if it is the hub, rank 0, else one to the hub.
struct Star {
  int rank;
  std::vector<int> sockets;

  /// The hub collects the parts in the order of the ranks, and sends all of them to everyone.
  void all_gather(char* everyone, std::span<const std::int64_t> counts,
                  const shampoo::CallContext& context) {
    const std::int64_t all = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    // No single send or receive waits for longer than the deadline.
    const auto deadline = context.deadline.count();
    const timeval limit{deadline / 1000, deadline % 1000 * 1000};
    for (const int socket : sockets)
      for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO})
        setsockopt(socket, SOL_SOCKET, option, &limit, sizeof limit);
    compare(context.call.signature);
    if (rank == 0) {
      char* part = everyone + counts[0];
      for (std::size_t r = 1; r < counts.size(); part += counts[r++])
        transfer(recv, sockets[r - 1], part, counts[r]);
      for (const int socket : sockets) transfer(send, socket, everyone, all);
    } else {
      char* part = std::accumulate(counts.begin(), counts.begin() + rank, everyone);
      transfer(send, sockets[0], part, counts[rank]);
      transfer(recv, sockets[0], everyone, all);
    }
  }

  /// Ranks in different calls must not take each other's bytes for theirs.
  void compare(std::uint64_t signature) {
    std::uint64_t other = 0;
    for (const int socket : sockets)
      transfer(send, socket, reinterpret_cast<char*>(&signature), sizeof signature);
    for (const int socket : sockets) {
      transfer(recv, socket, reinterpret_cast<char*>(&other), sizeof other);
      if (other != signature) throw std::runtime_error("a neighbour is in another call");
    }
  }

  template <typename Call>
  static void transfer(Call call, int socket, char* data, std::int64_t bytes) {
    while (bytes > 0) {
      const ssize_t some = call(socket, data, static_cast<std::size_t>(bytes), MSG_NOSIGNAL);
      if (some < 0 && errno == EINTR) continue;
      if (some < 0) throw std::system_error(errno, std::generic_category(), "a neighbour");
      if (some == 0) throw std::runtime_error("a neighbour is gone");
      data += some;
      bytes -= some;
    }
  }
};

/// Pulls W towards the mean of all ranks' targets; returns the checksum of W.
std::uint64_t train(shampoo::Communicator& ranks) {
  constexpr std::int64_t n = 8;
  std::vector<float> target(n * n), w(n * n, 0.0f), gradient(n * n);
  for (std::int64_t i = 0; i < n * n; ++i)
    target[i] = std::sin(static_cast<float>(ranks.rank() * n * n + i));

  const auto backend = shampoo::cpu_backend({.threads = 1});
  const shampoo::ParameterGroup group{.parameters = {{"w", {n, n}, {}, w.data(), gradient.data()}},
                                      .rates = {.learning_rate = 0.1}};
  shampoo::Optimizer optimizer(*backend, ranks, {group});
  const shampoo::TensorSpan gradients{gradient.data(), n * n, shampoo::Type::float32};
  for (int step = 0; step < 50; ++step) {
    for (std::int64_t i = 0; i < n * n; ++i) gradient[i] = w[i] - target[i];
    ranks.average({&gradients, 1});
    optimizer.step();
  }
  return examples::checksum(std::as_bytes(std::span(w)));
}

/// One rank's whole life.
std::uint64_t run(int rank, int size, std::vector<int> sockets) {
  Star star{rank, std::move(sockets)};
  const auto ranks = shampoo::user_communicator(
      {.rank_info = {.rank = rank, .size = size, .local_rank = rank},
       .all_gather = [&](void* data, auto counts, const shampoo::CallContext& context) {
         star.all_gather(static_cast<char*>(data), counts, context);
       }});
  const std::uint64_t checksum = train(*ranks);
  std::uint64_t hub = checksum;
  ranks->broadcast(&hub, sizeof hub, 0).wait();
  if (hub != checksum) throw std::runtime_error("the ranks have different checksums");
  std::printf("rank %d of %d: checksum %016" PRIx64 "\n", rank, size, checksum);
  return checksum;
}

/// Trains as process 0, with the others as its children. In those it returns nothing.
std::optional<std::uint64_t> run_processes(int size) {
  std::vector<int> sockets;
  for (int rank = 1; rank < size; ++rank) {
    int pair[2];
    const bool joined = socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0;
    const pid_t child = joined ? fork() : -1;
    if (child < 0) throw std::system_error(errno, std::generic_category(), "a rank's process");
    close(pair[child == 0 ? 0 : 1]);
    if (child == 0) {
      for (const int socket : sockets) close(socket);  // or nobody sees when they end
      run(rank, size, {pair[1]});
      return {};
    }
    sockets.push_back(pair[0]);
  }
  const std::uint64_t checksum = run(0, size, std::move(sockets));
  for (int status = 0; wait(&status) > 0;)
    if (status != 0) throw std::runtime_error("a rank has failed");
  return checksum;
}

}  // namespace

int main(int argc, char** argv) {
  const int size = argc > 1 ? std::atoi(argv[1]) : 3;
  if (size < 1 || size > 64) {
    std::fprintf(stderr, "own_communicator: the number of ranks must be from 1 to 64\n");
    return 2;
  }
  try {
    const auto expected = run_processes(size);
    if (!expected) return 0;
    shampoo::run_ranks(size, [&](shampoo::Communicator& ranks) {
      if (train(ranks) != expected) throw std::runtime_error("threads give another checksum");
    });
    std::printf("%d threads of one process: the same\n", size);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "own_communicator: %s\n", error.what());
    return 1;
  }
}
