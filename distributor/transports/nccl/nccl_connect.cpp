// SPDX-License-Identifier: Apache-2.0
#include "distributor/transports/nccl/nccl_connect.h"

#include <algorithm>
#include <array>
#include <exception>
#include <map>
#include <utility>

#include "distributor/error.h"
#include "distributor/rank_list.h"
#include "distributor/system/host_name.h"
#include "distributor/transports/nccl/nccl_communicator.h"
#include "distributor/transports/nccl/nccl_gather.h"

namespace shampoo {

namespace {

/// What a rank says of itself: lines of the host, the device and why it cannot take part.
struct Card {
  std::string host, device, fault;
};

std::string line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  std::ranges::replace(text, '\0', ' ');
  return text + '\n';
}

Card card_of(const std::string& text) {
  const std::size_t first = text.find('\n'), second = text.find('\n', first + 1);
  if (second == std::string::npos) throw CommunicationError("a rank says no sense of itself");
  return {text.substr(0, first), text.substr(first + 1, second - first - 1),
          text.substr(second + 1, text.size() - second - 2)};
}

void check_faults(const std::vector<Card>& cards) {
  for (std::size_t r = 0; r < cards.size(); ++r)
    if (!cards[r].fault.empty())
      throw CommunicationError("rank " + std::to_string(r) + " on " + cards[r].host +
                               " cannot take part: " + cards[r].fault);
}

void check_devices(const std::vector<Card>& cards) {
  std::map<std::pair<std::string, std::string>, std::vector<int>> users;
  for (std::size_t r = 0; r < cards.size(); ++r)
    users[{cards[r].host, cards[r].device}].push_back(static_cast<int>(r));
  for (const auto& [place, ranks] : users)
    if (ranks.size() > 1)
      throw CommunicationError(rank_list(ranks) + " on " + place.first +
                               " have the same CUDA device, " + place.second +
                               "; each needs its own, as that of its local rank");
}

/// Rank 0 makes it, or says why not.
std::string agree_on_id(NcclMeeting& meeting, NcclCalls& calls, int rank) {
  std::string said;
  if (rank == 0) try {
      said = "+" + calls.unique_id();
    } catch (const CommunicationError& error) {
      said = std::string("-") + error.what();
    }
  said = meeting.broadcast(said);
  if (!said.starts_with('+'))
    throw CommunicationError("rank 0 has no unique id of NCCL: " +
                             said.substr(said.empty() ? 0 : 1));
  return said.substr(1);
}

}  // namespace

std::unique_ptr<Communicator> connect_nccl(NcclMeeting& meeting, NcclConnection connection) {
  const auto end = NcclHandle::Clock::now() + connection.deadline;
  const int rank = connection.place.rank;
  NcclSetup setup{
      .board = connection.board, .host = connection.host, .deadline = connection.deadline};
  std::exception_ptr fault;
  Card own{host_name(), "", ""};
  try {
    setup.calls = connection.make_calls();
    own.device = setup.calls->device_name();
  } catch (const std::exception& error) {
    fault = std::current_exception();
    own.fault = error.what();
  }
  std::vector<Card> cards;
  for (const std::string& text :
       meeting.gather(line(own.host) + line(own.device) + line(own.fault)))
    cards.push_back(card_of(text));
  if (fault) std::rethrow_exception(fault);
  check_faults(cards);
  check_devices(cards);
  for (const Card& card : cards) setup.hosts.push_back(card.host);

  const std::string id = agree_on_id(meeting, *setup.calls, rank);
  setup.handle =
      std::make_unique<NcclHandle>(setup.calls, setup.calls->connect(connection.place, id));
  try {
    setup.handle->settle(end, "connecting");
  } catch (const CommunicationError& error) {
    setup.handle->shut_down(error.what());
    if (setup.board) throw setup.board->diagnose(error.what(), connection.deadline);
    throw;
  }
  return std::make_unique<NcclCommunicator>(rank, std::move(setup));
}

std::unique_ptr<Communicator> connect_nccl_by_store(std::shared_ptr<Store> store,
                                                    NcclConnection connection,
                                                    const std::string& prefix,
                                                    const std::string& server) {
  const auto [rank, size] = connection.place;
  const auto locked = std::make_shared<SynchronizedStore>(std::move(store), connection.deadline);
  connection.board.emplace(locked, prefix, server, rank, size);
  connection.board->barrier(host_name(), connection.deadline);
  return connect_nccl(*meet_over(locked, prefix + "/nccl", rank, size, connection.deadline),
                      std::move(connection));
}

std::unique_ptr<Communicator> borrow_nccl(NcclCalls::Comm comm, std::shared_ptr<NcclCalls> calls,
                                          NcclHandle::ShutDown shut_down,
                                          std::chrono::milliseconds deadline) {
  using Name = std::array<char, 64>;
  const auto end = NcclHandle::Clock::now() + deadline;
  const NcclCalls::Place place = calls->place(comm);
  NcclSetup setup{.calls = calls,
                  .handle = std::make_unique<NcclHandle>(calls, comm, std::move(shut_down)),
                  .deadline = deadline};
  std::vector<Name> names(static_cast<std::size_t>(place.size), Name{});
  host_name().copy(names[place.rank].data(), sizeof(Name) - 1);
  const auto destroy = [&](void* stream) { calls->destroy_stream(stream); };
  const std::unique_ptr<void, decltype(destroy)> stream(calls->make_stream(), destroy);
  try {
    gather_through_device(*setup.handle, stream.get(), place, names.data(), sizeof(Name), end);
  } catch (const CommunicationError& error) {
    setup.handle->shut_down(error.what());
    throw;
  }
  for (const Name& name : names) setup.hosts.emplace_back(name.data());
  return std::make_unique<NcclCommunicator>(place.rank, std::move(setup));
}

}  // namespace shampoo
