// SPDX-License-Identifier: Apache-2.0
// In libshampoo_gloo.so, which sees none of the library's code but headers.
#include "distributor/transports/gloo/gloo_module.h"

#include <gloo/allgatherv.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/config.h>
#include <gloo/rendezvous/context.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "distributor/transports/gloo/gloo_store.h"

namespace shampoo {

namespace {

using std::chrono::milliseconds;

/// Gloo requires an address even for empty buffers.
char empty_buffer = 0;

char* address(void* data) { return data ? static_cast<char*>(data) : &empty_buffer; }

/// Repeating an all_gather with the same arguments does not allocate here; other collectives build
/// their options on every call.
class Mesh final : public GlooMesh {
 public:
  Mesh(std::shared_ptr<gloo::Context> context, std::shared_ptr<GlooStore> store)
      : context_(std::move(context)), store_(std::move(store)) {}

  void set_deadline(milliseconds deadline) override {
    context_->setTimeout(deadline);
    gather_.reset();  // its options hold the previous deadline
  }

  void all_gather(void* data, Counts counts, std::uint32_t tag) override {
    if (!gather_ || gather_->data != data || !std::ranges::equal(gather_->counts, counts)) {
      gather_ = Gather{data, std::vector<std::int64_t>(counts.begin(), counts.end()),
                       gloo::AllgathervOptions(context_)};
      gather_->options.setOutput(address(data),
                                 std::vector<std::size_t>(counts.begin(), counts.end()));
    }
    gather_->options.setTag(tag);
    gloo::allgatherv(gather_->options);
  }

  /// As gloo::alltoallv(), but each message has a slot of its own.
  void all_to_all(const void* send, Counts send_counts, Slots send_slots, void* receive,
                  Counts receive_counts, Slots receive_slots) override {
    const auto size = static_cast<int>(send_counts.size());
    const int self = context_->rank;
    const std::vector<std::size_t> from_begin = begins(send_counts);
    const std::vector<std::size_t> to_begin = begins(receive_counts);
    const auto in =
        context_->createUnboundBuffer(address(const_cast<void*>(send)), from_begin.back());
    const auto out = context_->createUnboundBuffer(address(receive), to_begin.back());
    if (const std::int64_t own = send_counts[self]; own > 0)
      std::memcpy(static_cast<char*>(receive) + to_begin[self],
                  static_cast<const char*>(send) + from_begin[self], static_cast<std::size_t>(own));
    for (int i = 1; i < size; ++i) {
      const int to = (self + i) % size, from = (self + size - i) % size;
      out->recv(from, receive_slots[from], to_begin[from],
                static_cast<std::size_t>(receive_counts[from]));
      in->send(to, send_slots[to], from_begin[to], static_cast<std::size_t>(send_counts[to]));
    }
    for (int i = 1; i < size; ++i) {
      in->waitSend(context_->getTimeout());
      out->waitRecv(context_->getTimeout());
    }
  }

  void broadcast(void* data, std::int64_t bytes, int root, std::uint32_t tag) override {
    gloo::BroadcastOptions options(context_);
    options.setTag(tag);
    options.setRoot(root);
    options.setOutput(address(data), static_cast<std::size_t>(bytes));
    gloo::broadcast(options);
  }

  void barrier(std::uint32_t tag) override {
    gloo::BarrierOptions options(context_);
    options.setTag(tag);
    gloo::barrier(options);
  }

  /// Closing the connections would leave this rank's own operations waiting, whereas a failed wait
  /// closes them and wakes waiters.
  void close() noexcept override {
    try {
      context_->createUnboundBuffer(&empty_buffer, 1)->waitRecv(milliseconds(1));
    } catch (...) {  // the timeout is intended
    }
  }

  void remove_keys() noexcept override { store_->remove_keys(); }

 private:
  /// Where the part of each rank begins, then the sum.
  static std::vector<std::size_t> begins(Counts counts) {
    std::vector<std::size_t> all{0};
    for (const std::int64_t count : counts)
      all.push_back(all.back() + static_cast<std::size_t>(count));
    return all;
  }

  /// The previous all_gather: the exchange of every step repeats its arguments.
  struct Gather {
    void* data;
    std::vector<std::int64_t> counts;
    gloo::AllgathervOptions options;
  };

  std::shared_ptr<gloo::Context> context_;
  std::shared_ptr<GlooStore> store_;
  std::optional<Gather> gather_;
};

class Listener final : public GlooListener {
 public:
  explicit Listener(const std::string& host)
      : device_(gloo::transport::tcp::CreateDevice(host.c_str())) {}

  std::unique_ptr<GlooMesh> connect(const Rendezvous& to) override {
    auto context = std::make_shared<gloo::rendezvous::Context>(to.rank, to.size);
    // Gloo waits for a peer 5 times that.
    context->setTimeout(std::max(to.deadline / 5, milliseconds(1)));
    auto store = std::make_shared<GlooStore>(to.store, to.prefix, to.end);
    if (to.size > 1) connect(*context, store);
    return std::make_unique<Mesh>(std::move(context), std::move(store));
  }

 private:
  void connect(gloo::rendezvous::Context& context, std::shared_ptr<GlooStore> store) {
#ifdef GLOO_SHARED_STORE
    context.connectFullMesh(std::move(store), device_);
#else
    context.connectFullMesh(*store, device_);
#endif
  }

  std::shared_ptr<gloo::transport::Device> device_;
};

constexpr GlooModule module{
    .shampoo_version = SHAMPOO_VERSION,
    .gloo_version = {GLOO_VERSION_MAJOR, GLOO_VERSION_MINOR, GLOO_VERSION_PATCH},
    .listen = [](const std::string& host) -> std::shared_ptr<GlooListener> {
      return std::make_shared<Listener>(host);
    }};

}  // namespace

extern "C" __attribute__((visibility("default"))) const GlooModule* shampoo_gloo_module() {
  return &module;
}

}  // namespace shampoo
