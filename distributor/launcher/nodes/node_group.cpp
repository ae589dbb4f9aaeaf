// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/nodes/node_group.h"

#include <algorithm>
#include <utility>

#include "distributor/store/socket.h"

namespace shampoo::launcher {

namespace {

using std::chrono::milliseconds;

std::string key_of(std::string_view name) {
  return std::string(NodeGroup::key_prefix).append(name);
}

std::string key_of(std::string_view name, int node) {
  return key_of(name) + "/" + std::to_string(node);
}

JobTerms terms_of(const LaunchOptions& options) {
  return {{"protocol of shampoorun", "2"},
          {"--rdzv-id", options.run_id},
          {"--nnodes", std::to_string(options.nodes)},
          {"--max-restarts", std::to_string(options.max_restarts)},
          {"--rdzv-backend", options.rendezvous == Rendezvous::dynamic ? "c10d" : "static"}};
}

}  // namespace

NodeGroup::NodeGroup(Store& store, const LaunchOptions& options, const Introduction& introduction,
                     bool is_host, std::function<void()> before_attempt)
    : store_(store),
      workers_(options.workers),
      heartbeat_(std::min(options.times.heartbeat, milliseconds(1000))),
      loss_(options.times.heartbeat * options.times.heartbeats_missed),
      before_attempt_(std::move(before_attempt)),
      nodes_(static_cast<std::size_t>(options.nodes)),
      seen_(nodes_.size()) {
  const JobTerms terms = terms_of(options);
  if (!is_host) compare_terms(terms, store::place_of(options.endpoint_host, options.endpoint_port));
  node_ = claim_node(options, is_host);
  store_.set(key_of("node", node_), encode(introduction));
  if (!is_host) return;
  coordinator_.emplace(options.max_restarts, options.times.join, std::chrono::steady_clock::now());
  store_.set(key_of("job"), encode(terms));
}

void NodeGroup::compare_terms(const JobTerms& own, const std::string& where) {
  constexpr milliseconds longest{5000};  // the host publishes the terms as soon as it serves
  const std::string key = key_of("job");
  const bool found = store_.wait({&key, 1}, longest);
  const auto terms = found ? decode<JobTerms>(store_.get(key).value_or("")) : std::nullopt;
  if (!terms)
    throw Refused("what serves " + where +
                  " is no shampoorun: all nodes of a job must use the same launcher");
  for (const auto& [name, value] : own) {
    const auto term = terms->find(name);
    const std::string theirs = term == terms->end() ? "missing" : "'" + term->second + "'";
    if (theirs != "'" + value + "'")
      throw Refused(name + " is " + theirs + " in the job at " + where + ", not '" + value + "'");
  }
}

int NodeGroup::claim_node(const LaunchOptions& options, bool is_host) {
  const bool is_fixed = options.rendezvous == Rendezvous::fixed;
  const int first = is_fixed ? options.node_rank : is_host ? 0 : 1;
  const int end = is_fixed || is_host ? first + 1 : options.nodes;
  for (int node = first; node < end; ++node)
    if (store_.add(key_of("claim", node), 1) == 1) return node;
  if (!is_fixed) throw Refused("the job has all its " + std::to_string(options.nodes) + " nodes");
  const auto other = decode<Introduction>(store_.get(key_of("node", first)).value_or(""));
  throw Refused("--node-rank " + std::to_string(first) + " is already that of " +
                (other ? name_of(*other, first) : "another node"));
}

void NodeGroup::send(const Report& report) {
  const std::int64_t heartbeat = report_.heartbeat + 1;
  report_ = report;
  report_.heartbeat = heartbeat;
  store_.set(key_of("report", node_), encode(report_));
  sent_ = std::chrono::steady_clock::now();
}

std::optional<Order> NodeGroup::tick(Time now) {
  if (now - sent_ >= heartbeat_) send(report_);
  if (coordinator_) {
    for (int node = 0; node < std::ssize(nodes_); ++node) observe(node, now);
    observed_ = now;
    decide(now);
  }
  return read_order();
}

/// A message that cannot be decoded is none: its sender then misses heartbeats.
void NodeGroup::observe(int node, Time now) {
  NodeView& view = nodes_[static_cast<std::size_t>(node)];
  Time& seen = seen_[static_cast<std::size_t>(node)];
  if (!view.introduction) {
    view.introduction = decode<Introduction>(store_.get(key_of("node", node)).value_or(""));
    seen = now;
  }
  const auto report = decode<Report>(store_.get(key_of("report", node)).value_or(""));
  const bool alive = report && report->heartbeat != view.report.heartbeat;
  if (alive) view.report = *report;
  // A host that was stopped or starved could not see heartbeats.
  const bool host_paused = now - observed_ > loss_ / 2;
  if (alive || host_paused || node == node_) seen = now;
  view.lost = now - seen > loss_;
}

void NodeGroup::decide(Time now) {
  const std::optional<Order> order = coordinator_->decide(nodes_, now);
  if (!order) return;
  if (order->kind == OrderKind::run) before_attempt_();
  store_.set(key_of("order"), encode(*order));
}

/// Of orders to run, only those are believed that give this node the workers that it offered.
std::optional<Order> NodeGroup::read_order() {
  auto order = decode<Order>(store_.get(key_of("order")).value_or(""));
  if (!order || order->number <= last_order_) return std::nullopt;
  const bool runs = order->kind == OrderKind::run;
  if (runs && (order->members.size() != nodes_.size() ||
               order->members[static_cast<std::size_t>(node_)].workers != workers_))
    return std::nullopt;
  last_order_ = order->number;
  return order;
}

}  // namespace shampoo::launcher
