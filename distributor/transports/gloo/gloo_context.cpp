// SPDX-License-Identifier: Apache-2.0
#include "distributor/transports/gloo/gloo_context.h"

#include <gloo/transport/context.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/tcp/address.h>
#include <gloo/transport/unbound_buffer.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <set>
#include <stdexcept>
#include <utility>

namespace shampoo {

namespace {

using gloo::transport::tcp::Address;

/// An address of Gloo's, without the unused part of its 136 bytes.
struct Entry {
  std::int32_t rank = 0;  ///< for which it is meant
  sockaddr_in6 host{};    ///< or an IPv4 address in its first bytes
  std::int64_t number = 0;
};

constexpr std::size_t entry_bytes =
    sizeof(std::int32_t) + sizeof(sockaddr_in6) + sizeof(std::int64_t);

std::string write_entry(int rank, const gloo::transport::Pair& pair) {
  const Address address(pair.address().bytes());
  const auto number = static_cast<std::int64_t>(address.getSeq());
  const auto destination = static_cast<std::int32_t>(rank);
  std::string bytes(entry_bytes, '\0');
  char* at = bytes.data();
  std::memcpy(at, &destination, sizeof destination);
  std::memcpy(at += sizeof destination, &address.getSockaddr(), sizeof(sockaddr_in6));
  std::memcpy(at + sizeof(sockaddr_in6), &number, sizeof number);
  return bytes;
}

Entry read_entry(const char* at) {
  Entry entry;
  std::memcpy(&entry.rank, at, sizeof entry.rank);
  std::memcpy(&entry.host, at += sizeof entry.rank, sizeof entry.host);
  std::memcpy(&entry.number, at + sizeof entry.host, sizeof entry.number);
  return entry;
}

std::vector<char> address_of(const Entry& entry) {
  sockaddr_storage host{};
  std::memcpy(&host, &entry.host, sizeof entry.host);
  return Address(host, static_cast<gloo::transport::tcp::sequence_number_t>(entry.number)).bytes();
}

/// The address in `bytes`, from rank `peer`, that is meant for this rank.
std::vector<char> find_entry(const std::string& bytes, int rank, int peer) {
  for (std::size_t at = 0; at + entry_bytes <= bytes.size(); at += entry_bytes) {
    const Entry entry = read_entry(bytes.data() + at);
    if (entry.rank == rank) return address_of(entry);
  }
  throw std::runtime_error("rank " + std::to_string(peer) + " has no address for rank " +
                           std::to_string(rank));
}

}  // namespace

std::vector<int> GlooContext::near_ranks(int rank, int size) {
  std::set<int> ranks;
  for (std::int64_t distance = 1; distance < size; distance *= 2) {
    ranks.insert(static_cast<int>((rank + distance) % size));
    ranks.insert(static_cast<int>((rank + size - distance) % size));
  }
  return {ranks.begin(), ranks.end()};
}

GlooContext::GlooContext(int rank_, int size_, std::shared_ptr<gloo::transport::Device> device,
                         std::chrono::milliseconds deadline)
    : gloo::Context(rank_, size_) {
  setTimeout(deadline);
  device_ = std::move(device);
  tcp_ = device_->createContext(rank, size);
  transportContext_ = interruptible_ = std::make_shared<InterruptibleTransport>(tcp_);
  make_pairs(near_ranks(rank, size), deadline);
}

/// Gloo waits for a peer 5 times as long as it is told to.
void GlooContext::make_pairs(const std::vector<int>& ranks, std::chrono::milliseconds deadline) {
  const std::lock_guard lock(mutex_);
  tcp_->setTimeout(std::max(deadline / 5, std::chrono::milliseconds(1)));
  if (closed_) throw std::runtime_error("the connections are closed");
  for (const int peer : ranks) tcp_->createPair(peer);
}

std::string GlooContext::addresses() const {
  std::string bytes;
  for (const int peer : near_ranks(rank, size)) bytes += write_entry(peer, *tcp_->getPair(peer));
  return bytes;
}

/// In the order of ranks, in which no ranks can wait for each other in a circle.
void GlooContext::connect(const std::map<int, std::string>& addresses) {
  for (const auto& [peer, bytes] : addresses) getPair(peer)->connect(find_entry(bytes, rank, peer));
}

void GlooContext::connect_all(std::chrono::milliseconds deadline) {
  if (std::exchange(complete_, true)) return;
  std::vector<int> others;
  for (int peer = 0; peer < size; ++peer)
    if (peer != rank && !getPair(peer)) others.push_back(peer);
  make_pairs(others, deadline);
  std::vector<std::string> blocks(static_cast<std::size_t>(size), std::string(entry_bytes, '\0'));
  for (const int peer : others)
    blocks[static_cast<std::size_t>((peer - rank + size) % size)] =
        write_entry(peer, *getPair(peer));
  blocks = exchange(std::move(blocks), deadline);
  for (const int peer : others)
    getPair(peer)->connect(
        find_entry(blocks[static_cast<std::size_t>((rank - peer + size) % size)], rank, peer));
}

/// Block i is for the rank at distance i; in the result it is from the rank at distance -i. After
/// Bruck et al., Efficient algorithms for all-to-all communications in multiport message-passing
/// systems, 1997: in round k, blocks whose distance has bit k travel 2^k ranks.
std::vector<std::string> GlooContext::exchange(std::vector<std::string> blocks,
                                               std::chrono::milliseconds deadline) {
  std::uint64_t slot = std::uint64_t{0xFF} << 56;  // Gloo's own prefixes are small numbers
  for (std::size_t distance = 1; distance < blocks.size(); distance *= 2, ++slot) {
    std::string sent;
    for (std::size_t i = 0; i < blocks.size(); ++i)
      if (i & distance) sent += blocks[i];
    std::string received(sent.size(), '\0');
    const auto out = createUnboundBuffer(sent.data(), sent.size());
    const auto in = createUnboundBuffer(received.data(), received.size());
    const auto step = static_cast<int>(distance);
    in->recv((rank + size - step) % size, slot);
    out->send((rank + step) % size, slot);
    in->waitRecv(deadline);
    out->waitSend(deadline);
    std::size_t at = 0;
    for (std::size_t i = 0; i < blocks.size(); ++i)
      if (i & distance) {
        blocks[i] = received.substr(at, entry_bytes);
        at += entry_bytes;
      }
  }
  return blocks;
}

/// A wait that fails closes all connections.
void GlooContext::close() noexcept {
  char empty = 0;
  try {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    tcp_->createUnboundBuffer(&empty, 1)->waitRecv(std::chrono::milliseconds(1));
  } catch (...) {  // the timeout is intended
  }
  interruptible_->interrupt();
}

}  // namespace shampoo
