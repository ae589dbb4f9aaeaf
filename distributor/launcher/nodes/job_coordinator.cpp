// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/nodes/job_coordinator.h"

#include <algorithm>

namespace shampoo::launcher {

namespace {

bool has_left(const NodeView& node) {
  return node.report.stage == Stage::leaving || node.report.stage == Stage::done;
}

std::string name_of(std::span<const NodeView> nodes, const NodeView& node) {
  return name_of(*node.introduction, static_cast<int>(&node - nodes.data()));
}

}  // namespace

std::optional<Order> JobCoordinator::decide(std::span<const NodeView> nodes, Time now) {
  if (state_ == State::ended) return std::nullopt;
  for (const NodeView& node : nodes) {
    if (!node.introduction) continue;
    if (node.report.stage == Stage::broken)
      return end(1, name_of(nodes, node) + ": " + node.report.text);
    if (has_left(node)) return end(1, name_of(nodes, node) + " left: " + node.report.text);
  }
  return state_ == State::gathering ? gather(nodes, now) : supervise(nodes, now);
}

std::optional<Order> JobCoordinator::gather(std::span<const NodeView> nodes, Time now) {
  const auto ready = std::ranges::count_if(nodes, [&](const NodeView& node) {
    return node.introduction && !node.lost && node.report.stage == Stage::waiting &&
           node.report.order == orders_;
  });
  if (ready < std::ssize(nodes)) {
    if (now - gathering_since_ < join_) return std::nullopt;
    return end(1, "only " + std::to_string(ready) + " of " + std::to_string(nodes.size()) +
                      " nodes are ready within " + std::to_string(join_.count()) + " ms");
  }
  state_ = State::running;
  Order order = next(OrderKind::run, "");
  for (const NodeView& node : nodes)
    order.members.push_back({node.introduction->workers, node.introduction->role});
  return order;
}

std::optional<Order> JobCoordinator::supervise(std::span<const NodeView> nodes, Time now) {
  bool all_succeeded = true;
  for (const NodeView& node : nodes) {
    const bool current = node.report.attempt == attempt_;
    if (current && node.report.stage == Stage::succeeded) continue;
    all_succeeded = false;
    if (node.lost)
      return restart_or_end(name_of(nodes, node) + " is gone: it misses heartbeats", 1, now);
    if (current && node.report.stage == Stage::failed)
      return restart_or_end(name_of(nodes, node) + ": " + node.report.text, node.report.code, now);
  }
  if (all_succeeded) return end(0, "");
  return std::nullopt;
}

Order JobCoordinator::restart_or_end(const std::string& why, int code, Time now) {
  if (attempt_ == max_restarts_) return end(code, why);
  ++attempt_;
  state_ = State::gathering;
  gathering_since_ = now;
  return next(OrderKind::wait, why);
}

Order JobCoordinator::end(int code, const std::string& why) {
  state_ = State::ended;
  return next(OrderKind::end, why, code);
}

Order JobCoordinator::next(OrderKind kind, const std::string& why, int code) {
  return {++orders_, kind, attempt_, {}, code, why};
}

bool all_ended(std::span<const NodeView> nodes) {
  return std::ranges::all_of(nodes, [](const NodeView& node) {
    return !node.introduction || node.lost || has_left(node);
  });
}

}  // namespace shampoo::launcher
