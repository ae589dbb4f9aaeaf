// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "distributor/transports/nccl/nccl_api.h"
#include "tests/distributor/transports/nccl/stream_double.h"

namespace shampoo::test {

/// One collective or message of a launch.
struct NcclWork {
  enum class Kind : std::uint8_t { all_gather, broadcast, send, receive, barrier } kind;
  const char* send = nullptr;
  char* receive = nullptr;
  std::int64_t bytes = 0;
  int peer = 0;  ///< or root
};

/// The ranks of one communicator: where they meet, launch after launch.
class NcclClique {
 public:
  explicit NcclClique(int size)
      : arrived_(static_cast<std::size_t>(size)), aborted_(static_cast<std::size_t>(size)) {}

  int size() const { return static_cast<int>(arrived_.size()); }
  void arrive(int rank);
  bool is_connected();
  /// Runs on a stream until all ranks have come to the launch, or this one was aborted. For ever if
  /// the ranks launch what does not fit.
  void launch(int rank, std::vector<NcclWork> work);
  void abort(int rank);
  /// Where ranks with one color of one split meet.
  std::shared_ptr<NcclClique> child(std::uint64_t split, int rank, int color, int key, int& place);

 private:
  struct Launch {
    std::map<int, std::vector<NcclWork>> of;
    bool done = false;
  };
  struct Split {
    std::map<int, std::pair<int, int>> choices;  ///< rank: color and key
    std::map<int, std::shared_ptr<NcclClique>> cliques;
  };

  static bool fits(Launch& launch);
  static const NcclWork* find_other_end(const std::vector<NcclWork>& theirs, const NcclWork& own,
                                        int rank);
  void perform(Launch& launch);
  void move(Launch& launch, int rank, std::size_t at);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> arrived_, aborted_;
  std::vector<std::uint64_t> launches_ = std::vector<std::uint64_t>(arrived_.size());
  std::map<std::uint64_t, Launch> launch_;
  std::map<std::uint64_t, Split> splits_;
};

/// What the ranks of a job share.
struct NcclJob {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<NcclClique>> cliques;  ///< by unique id
};

/// Emulates NCCL and the CUDA runtime for one rank, on threads and in host memory: streams are
/// asynchronous, calls complete some polls later, and faults are injected by tests.
class NcclDouble final : public NcclApi {
 public:
  struct Comm_ {
    std::shared_ptr<NcclClique> clique;
    int rank = 0;
    int polls = 0;  ///< until it is ready
    std::uint64_t splits = 0;
    std::vector<std::function<void()>> held = {};  ///< what happens when it is
  };

  NcclDouble(NcclJob& job, std::string device) : job_(job), device_(std::move(device)) {}
  ~NcclDouble() override;

  // For tests.
  StreamDouble& stream() { return default_stream_; }
  /// Ends the capture of a stream, of all that joined it.
  std::shared_ptr<GraphDouble> end_capture(StreamDouble& stream);
  void replay(const std::shared_ptr<GraphDouble>& graph) { replay(graph, default_stream_); }
  static void replay(const std::shared_ptr<GraphDouble>& graph, StreamDouble& stream);
  StreamDouble& other_stream() { return *static_cast<StreamDouble*>(make_stream()); }
  /// What the next poll reports.
  void break_next(std::string fault) { set_fault(std::move(fault)); }
  struct Counts {
    std::atomic<int> launches{0}, all_gathers{0}, broadcasts{0}, aborts{0}, destroys{0}, events{0},
        registrations{0}, registrable{0}, allocations{0};
  } counts;
  std::atomic<bool> has_no_id{false};

  std::string description() override { return "NCCL played on threads"; }
  std::string device_name() override { return device_; }
  std::string unique_id() override;
  Comm connect(const Position& position, const std::string& unique_id) override;
  void split(Comm comm, int color, int key, Comm& subset) override;
  bool is_ready(Comm comm) override;
  Position position(Comm comm) override;
  void finalize(Comm comm) override;
  void destroy(Comm comm) noexcept override;
  void abort(Comm comm) noexcept override;

  void begin_group() override { is_grouping_ = true; }
  void end_group() override;
  void all_gather(const void* send, void* receive, std::int64_t bytes, Comm comm,
                  Stream stream) override;
  void broadcast(void* data, std::int64_t bytes, int root, Comm comm, Stream stream) override;
  void send(const void* data, std::int64_t bytes, int to, Comm comm, Stream stream) override;
  void receive(void* data, std::int64_t bytes, int from, Comm comm, Stream stream) override;
  void barrier(void* byte, Comm comm, Stream stream) override;
  void* register_memory(Comm comm, void* memory, std::int64_t bytes) override;
  void deregister_memory(Comm comm, void* registration) noexcept override;

  void enter_thread() override {}
  Stream make_stream() override;
  void destroy_stream(Stream stream) noexcept override;
  Event make_event() override;
  void destroy_event(Event event) noexcept override;
  void record(Event event, Stream stream) override;
  void wait(Stream stream, Event event) override;
  void record_external(Event event, Stream stream) override;
  void wait_external(Stream stream, Event event) override;
  bool is_done(Event event) override;
  std::uint64_t capture_of(Stream stream) override;
  void* allocate_registrable(std::size_t bytes) override;
  void release_registrable(void* memory) noexcept override;
  void* allocate(std::size_t bytes) override;
  void release(void* memory) noexcept override;
  void copy(void* to, const void* from, std::int64_t bytes, Stream stream) override;
  void ordered_sum(const void* parts, int n, std::int64_t count, Type type, double divisor,
                   void* sum, Stream stream) override;

 private:
  StreamDouble& on(Stream stream) {
    return stream ? *static_cast<StreamDouble*>(stream) : default_stream_;
  }
  /// The communicator, of which nothing is under way.
  static Comm_& asked(Comm comm);
  void add(const NcclWork& work, Comm comm, Stream stream);
  void launch();
  void set_fault(std::string fault);

  NcclJob& job_;
  const std::string device_;
  std::mutex fault_mutex_;
  std::string fault_;
  bool is_grouping_ = false;
  std::vector<NcclWork> group_;
  Comm_* group_comm_ = nullptr;
  StreamDouble* group_stream_ = nullptr;
  std::list<StreamDouble> streams_;
  StreamDouble default_stream_;
};

}  // namespace shampoo::test
