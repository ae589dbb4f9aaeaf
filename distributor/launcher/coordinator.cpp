// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/coordinator.h"

#include <algorithm>
#include <vector>

namespace shampoo::launcher {

namespace {

constexpr const char* irreplaceable = "; with --rdzv-backend=static nobody can take its place";

bool away(const NodeView& node) {
  return node.lost || node.report.stage == Stage::leaving || node.report.stage == Stage::done;
}

std::string why_away(const NodeView& node) {
  return node.introduction.name() + (node.lost ? " is gone" : " left: " + node.report.text);
}

}  // namespace

bool Coordinator::counts(const NodeView& node) const {
  return admitted_.contains(node.id) && !away(node);
}

/// Why a newcomer cannot take part; empty: it can.
std::string Coordinator::objection(const NodeView& node, std::span<const NodeView> nodes) const {
  const Introduction& own = node.introduction;
  for (const auto& [name, value] : nodes.front().introduction.terms) {
    const auto term = own.terms.find(name);
    const std::string other = term == own.terms.end() ? "nothing" : term->second;
    if (other != value) return name + " is " + value + " in this job, not " + other;
  }
  if (own.node_rank >= limits_.most_nodes)
    return "--node-rank is " + std::to_string(own.node_rank) + " in a job of " +
           std::to_string(limits_.most_nodes) + " nodes";
  const auto others = [&](const NodeView& other) { return other.id != node.id && counts(other); };
  for (const NodeView& other : nodes)
    if (others(other) && own.node_rank >= 0 && other.introduction.node_rank == own.node_rank)
      return "--node-rank " + std::to_string(own.node_rank) + " is already that of " +
             other.introduction.name();
  if (std::ranges::count_if(nodes, others) >= limits_.most_nodes)
    return "the job has all its " + std::to_string(limits_.most_nodes) + " nodes";
  const bool finishing = std::ranges::any_of(nodes, [&](const NodeView& other) {
    return members_.contains(other.id) && other.report.stage == Stage::succeeded;
  });
  return finishing && state_ == State::running ? "the job is about to end" : "";
}

void Coordinator::admit(std::span<const NodeView> nodes) {
  for (const NodeView& node : nodes) {
    if (admitted_.contains(node.id) || refused_.contains(node.id) || away(node)) continue;
    const std::string why = objection(node, nodes);
    if (why.empty())
      admitted_.insert(node.id);
    else
      refused_.emplace(node.id, why);
  }
}

std::optional<Order> Coordinator::decide(std::span<const NodeView> nodes, Time now) {
  if (state_ == State::ended || nodes.empty()) return std::nullopt;
  admit(nodes);
  if (away(nodes.front())) return end(1, why_away(nodes.front()));
  for (const NodeView& node : nodes)
    if (counts(node) && node.report.stage == Stage::broken)
      return end(1, node.introduction.name() + ": " + node.report.text);
  return state_ == State::gathering ? gather(nodes, now) : supervise(nodes, now);
}

std::optional<Order> Coordinator::gather(std::span<const NodeView> nodes, Time now) {
  std::vector<int> ready;
  bool awaited = false;  // somebody of the last attempt still stops its workers
  for (const NodeView& node : nodes) {
    if (!counts(node)) continue;
    const bool waits = node.report.stage == Stage::waiting &&
                       (!members_.contains(node.id) || node.report.order == orders_);
    if (waits)
      ready.push_back(node.id);
    else
      awaited = true;
  }
  const int size = static_cast<int>(ready.size());
  if (awaited) return std::nullopt;
  if (size < limits_.least_nodes) {
    enough_since_.reset();
    for (const NodeView& node : nodes)
      if (members_.contains(node.id) && away(node) && !limits_.replaceable)
        return end(1, why_away(node) + irreplaceable);
    if (now - gathering_since_ < limits_.join) return std::nullopt;
    return end(1, "only " + std::to_string(size) + " of " + std::to_string(limits_.least_nodes) +
                      " nodes joined within " + std::to_string(limits_.join.count()) + " ms");
  }
  if (!enough_since_) enough_since_ = now;
  // Those who come back do not wait for strangers, who may come at any time.
  const bool patient = members_.empty() && now - *enough_since_ < limits_.last_call;
  if (size < limits_.most_nodes && patient) return std::nullopt;
  return run(nodes, ready);
}

Order Coordinator::run(std::span<const NodeView> nodes, std::span<const int> ready) {
  state_ = State::running;
  ++attempt_;
  Order order = next(Order::Kind::run, "");
  members_ = {ready.begin(), ready.end()};
  std::vector<const NodeView*> sorted;
  for (const NodeView& node : nodes)
    if (members_.contains(node.id)) sorted.push_back(&node);
  std::ranges::stable_sort(sorted, {},
                           [](const NodeView* node) { return node->introduction.node_rank; });
  for (const NodeView* node : sorted)
    order.members.push_back({node->id, node->introduction.workers, node->introduction.role});
  return order;
}

std::optional<Order> Coordinator::supervise(std::span<const NodeView> nodes, Time now) {
  bool all_succeeded = true, any_succeeded = false;
  bool newcomer = false;
  for (const NodeView& node : nodes) {
    if (!members_.contains(node.id)) {
      newcomer |= counts(node);
      continue;
    }
    const bool current = node.report.attempt == attempt_;
    const bool succeeded = current && node.report.stage == Stage::succeeded;
    all_succeeded &= succeeded;
    any_succeeded |= succeeded;
    if (away(node) && !succeeded) return restart_or_end(nodes, why_away(node), 1, now);
    if (current && node.report.stage == Stage::failed)
      return restart_or_end(nodes, node.introduction.name() + ": " + node.report.text,
                            node.report.code, now);
  }
  if (all_succeeded) return end(0, "");
  if (!newcomer || any_succeeded) return std::nullopt;
  state_ = State::gathering;
  gathering_since_ = now;
  return next(Order::Kind::wait, "another node joins");
}

Order Coordinator::restart_or_end(std::span<const NodeView> nodes, const std::string& why, int code,
                                  Time now) {
  const auto left =
      std::ranges::count_if(nodes, [&](const NodeView& node) { return counts(node); });
  if (restarts_ == limits_.max_restarts) return end(code, why);
  if (left < limits_.least_nodes && !limits_.replaceable) return end(code, why + irreplaceable);
  ++restarts_;
  state_ = State::gathering;
  gathering_since_ = now;
  enough_since_.reset();
  return next(Order::Kind::wait, why);
}

Order Coordinator::end(int code, const std::string& why) {
  state_ = State::ended;
  Order order = next(Order::Kind::end, why);
  order.code = code;
  return order;
}

Order Coordinator::next(Order::Kind kind, const std::string& why) {
  Order order;
  order.number = ++orders_;
  order.kind = kind;
  order.attempt = std::max(attempt_, 0);
  order.restarts = restarts_;
  order.text = why;
  return order;
}

bool Coordinator::finished(std::span<const NodeView> nodes) const {
  return std::ranges::all_of(
      nodes, [&](const NodeView& node) { return refused_.contains(node.id) || away(node); });
}

}  // namespace shampoo::launcher
