// SPDX-License-Identifier: Apache-2.0
#include "tests/distributor/transports/nccl/nccl_double.h"

#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "distributor/communicator.h"
#include "distributor/reduction.h"

namespace shampoo::test {

NcclDouble::~NcclDouble() = default;

std::shared_ptr<GraphDouble> NcclDouble::end_capture(StreamDouble& stream) {
  const std::shared_ptr<GraphDouble> graph = stream.graph();
  for (StreamDouble& other : streams_)
    if (other.graph() == graph) other.leave_capture();
  stream.leave_capture();
  return graph;
}

void NcclDouble::replay(const std::shared_ptr<GraphDouble>& graph, StreamDouble& stream) {
  for (const auto& queue : graph->work) queue(stream);
}

void NcclDouble::set_fault(std::string fault) {
  const std::lock_guard lock(fault_mutex_);
  fault_ = std::move(fault);
}

NcclDouble::Comm_& NcclDouble::asked(Comm comm) {
  auto& asked = *static_cast<Comm_*>(comm);
  if (asked.polls > 0) throw std::logic_error("NCCL was asked before it was ready");
  return asked;
}

std::string NcclDouble::unique_id() {
  if (has_no_id) throw CommunicationError("ncclGetUniqueId: no interface");
  const std::lock_guard lock(job_.mutex);
  return "id " + std::to_string(job_.cliques.size());
}

NcclApi::Comm NcclDouble::connect(const Position& position, const std::string& unique_id) {
  const std::lock_guard lock(job_.mutex);
  std::shared_ptr<NcclClique>& clique = job_.cliques[unique_id];
  if (!clique) clique = std::make_shared<NcclClique>(position.size);
  clique->arrive(position.rank);
  return new Comm_{.clique = clique, .rank = position.rank, .polls = 3};
}

void NcclDouble::split(Comm comm, int color, int key, Comm& subset) {
  Comm_& parent = asked(comm);
  int place = 0;
  const auto clique = parent.clique->child(parent.splits++, parent.rank, color, key, place);
  parent.polls = 3;
  if (clique)
    parent.held.push_back([&subset, clique, place] {
      subset = new Comm_{.clique = clique, .rank = place, .polls = 1};
    });
}

bool NcclDouble::is_ready(Comm comm) {
  Comm_& polled = *static_cast<Comm_*>(comm);
  {
    const std::lock_guard lock(fault_mutex_);
    if (!fault_.empty()) throw CommunicationError("NCCL: " + fault_);
  }
  if (!polled.clique->is_connected() || (polled.polls > 0 && --polled.polls > 0)) return false;
  for (const auto& held : polled.held) held();
  polled.held.clear();
  return true;
}

NcclApi::Position NcclDouble::position(Comm comm) {
  return {asked(comm).rank, asked(comm).clique->size()};
}

void NcclDouble::finalize(Comm comm) { asked(comm).polls = 2; }

void NcclDouble::destroy(Comm comm) noexcept {
  ++counts.destroys;
  delete static_cast<Comm_*>(comm);
}

void NcclDouble::abort(Comm comm) noexcept {
  ++counts.aborts;
  auto* const aborted = static_cast<Comm_*>(comm);
  aborted->clique->abort(aborted->rank);
  delete aborted;
}

void NcclDouble::add(const NcclWork& work, Comm comm, Stream stream) {
  Comm_& on_comm = asked(comm);
  group_.push_back(work);
  group_comm_ = &on_comm;
  group_stream_ = &on(stream);
  if (!is_grouping_) launch();
}

void NcclDouble::end_group() {
  is_grouping_ = false;
  if (!group_.empty()) launch();
}

/// It comes to the stream when the communicator is ready again.
void NcclDouble::launch() {
  ++counts.launches;
  Comm_& comm = *group_comm_;
  comm.polls = 2;
  comm.held.push_back([stream = group_stream_, clique = comm.clique, rank = comm.rank,
                       work = std::exchange(group_, {})] {
    stream->push([clique, rank, work] { clique->launch(rank, work); });
  });
}

void NcclDouble::all_gather(const void* send, void* receive, std::int64_t bytes, Comm comm,
                            Stream stream) {
  ++counts.all_gathers;
  add({.kind = NcclWork::Kind::all_gather,
       .send = static_cast<const char*>(send),
       .receive = static_cast<char*>(receive),
       .bytes = bytes},
      comm, stream);
}

void NcclDouble::broadcast(void* data, std::int64_t bytes, int root, Comm comm, Stream stream) {
  ++counts.broadcasts;
  char* const both = static_cast<char*>(data);
  add({NcclWork::Kind::broadcast, both, both, bytes, root}, comm, stream);
}

void NcclDouble::send(const void* data, std::int64_t bytes, int to, Comm comm, Stream stream) {
  add({NcclWork::Kind::send, static_cast<const char*>(data), nullptr, bytes, to}, comm, stream);
}

void NcclDouble::receive(void* data, std::int64_t bytes, int from, Comm comm, Stream stream) {
  add({NcclWork::Kind::receive, nullptr, static_cast<char*>(data), bytes, from}, comm, stream);
}

void NcclDouble::barrier(void*, Comm comm, Stream stream) {
  add({.kind = NcclWork::Kind::barrier}, comm, stream);
}

void* NcclDouble::register_memory(Comm comm, void* memory, std::int64_t) {
  asked(comm);
  ++counts.registrations;
  return memory;
}

void NcclDouble::deregister_memory(Comm, void*) noexcept { --counts.registrations; }

NcclApi::Stream NcclDouble::make_stream() { return &streams_.emplace_back(); }

void NcclDouble::destroy_stream(Stream stream) noexcept {
  streams_.remove_if([&](const StreamDouble& other) { return &other == stream; });
}

NcclApi::Event NcclDouble::make_event() {
  ++counts.events;
  return new EventDouble(std::make_shared<EventState>());
}

void NcclDouble::destroy_event(Event event) noexcept {
  --counts.events;
  delete static_cast<EventDouble*>(event);
}

void NcclDouble::record(Event event, Stream stream) {
  on(stream).record(*static_cast<EventDouble*>(event));
}

void NcclDouble::wait(Stream stream, Event event) {
  on(stream).wait(*static_cast<EventDouble*>(event));
}

void NcclDouble::record_external(Event event, Stream stream) {
  on(stream).record_external(*static_cast<EventDouble*>(event));
}

void NcclDouble::wait_external(Stream stream, Event event) {
  on(stream).wait_external(*static_cast<EventDouble*>(event));
}

bool NcclDouble::is_done(Event event) {
  EventState& asked = **static_cast<EventDouble*>(event);
  const std::lock_guard lock(asked.mutex);
  if (asked.captured) throw CommunicationError("cudaEventQuery: the event was captured");
  return asked.reached == asked.recorded;
}

/// A graph lives as long as an event that was recorded in it.
std::uint64_t NcclDouble::capture_of(Stream stream) {
  return reinterpret_cast<std::uintptr_t>(on(stream).graph().get());
}

void* NcclDouble::allocate_registrable(std::size_t bytes) {
  ++counts.registrable;
  return std::calloc(1, bytes);
}

void NcclDouble::release_registrable(void* memory) noexcept {
  if (memory) --counts.registrable;
  std::free(memory);
}

void* NcclDouble::allocate(std::size_t bytes) {
  ++counts.allocations;
  return ::operator new(bytes);
}

/// Waits for the device, as CUDA does.
void NcclDouble::release(void* memory) noexcept {
  if (!memory) return;
  for (StreamDouble& stream : streams_) stream.synchronize();
  default_stream_.synchronize();
  --counts.allocations;
  ::operator delete(memory);
}

void NcclDouble::copy(void* to, const void* from, std::int64_t bytes, Stream stream) {
  on(stream).push([=] { std::memcpy(to, from, static_cast<std::size_t>(bytes)); });
}

void NcclDouble::ordered_sum(const void* parts, int n, std::int64_t count, Type type,
                             double divisor, void* sum, Stream stream) {
  on(stream).push([=] { shampoo::ordered_sum(parts, n, count, type, divisor, sum); });
}

}  // namespace shampoo::test
