// SPDX-License-Identifier: Apache-2.0
// In libshampoo_gloo.so, which sees none of the library's code but headers.
#include "distributor/transports/gloo/gloo_module.h"

#include <gloo/allgatherv.h>
#include <gloo/alltoallv.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/config.h>
#include <gloo/rendezvous/context.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
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

  void all_to_all(const void* send, Counts send_counts, void* receive, Counts receive_counts,
                  std::uint32_t tag) override {
    gloo::AlltoallvOptions options(context_);
    options.setTag(tag);
    options.setInput(address(const_cast<void*>(send)),
                     std::vector<std::int64_t>(send_counts.begin(), send_counts.end()));
    options.setOutput(address(receive),
                      std::vector<std::int64_t>(receive_counts.begin(), receive_counts.end()));
    gloo::alltoallv(options);
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
    context->setTimeout(to.deadline);
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
