// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/node_group.h"

#include <algorithm>
#include <utility>

#include "distributor/error.h"
#include "distributor/launcher/meeting_point.h"

namespace shampoo::launcher {

namespace {

using std::chrono::milliseconds;

constexpr std::string_view job_key = "shampoorun/job";
constexpr std::string_view nodes_key = "shampoorun/nodes";
constexpr std::string_view order_key = "shampoorun/order";
constexpr std::string_view version = "1 ";
constexpr int most_ids = 1'000'000'000;

std::string key_of(std::string_view what, int id) {
  return "shampoorun/" + std::string(what) + "/" + std::to_string(id);
}

int checked_id(std::int64_t counter) {
  if (counter < 1 || counter > most_ids)
    throw CommunicationError("the job's store counts " + std::to_string(counter) + " launchers");
  return static_cast<int>(counter);
}

}  // namespace

std::optional<std::string> job_of(Store& store) {
  const auto text = store.get(job_key);
  if (!text) return std::nullopt;
  if (!text->starts_with(version))
    throw Refused("the job at " + store.description() +
                  " is run by another version of this launcher");
  return text->substr(version.size());
}

NodeGroup::NodeGroup(Store& store, const std::string& run_id, const Introduction& introduction,
                     const RendezvousTimes& times, std::optional<Coordinator> coordinator,
                     std::function<void(Order&)> prepare)
    : store_(store),
      beat_(std::min(times.heartbeat, milliseconds(1000))),
      loss_(times.heartbeat * times.heartbeats_missed),
      coordinator_(std::move(coordinator)),
      prepare_(std::move(prepare)) {
  id_ = checked_id(store_.add(nodes_key, 1));
  store_.set(key_of("node", id_), encode(introduction));
  // Others join only once there is a job, and so the host is the first.
  if (coordinator_) store_.set(job_key, std::string(version) + run_id);
}

void NodeGroup::report(const Report& report) { store_.set(key_of("report", id_), encode(report)); }

std::optional<Order> NodeGroup::tick(Time now) {
  show_life(now);
  if (coordinator_) {
    meet_newcomers(now);
    for (NodeView& node : nodes_) look(node, now);
    looked_ = now;
    decide(now);
  } else if (const auto why = store_.get(key_of("refusal", id_))) {
    throw Refused(*why);
  }
  return read_order();
}

void NodeGroup::show_life(Time now) {
  if (beats_ > 0 && now - shown_ < beat_) return;
  store_.set(key_of("alive", id_), std::to_string(++beats_));
  shown_ = now;
}

/// Ids are taken before introductions are written. Whoever can reach the store can set the counter
/// to anything: of a great leap only the end is believed.
void NodeGroup::meet_newcomers(Time now) {
  constexpr int most_at_once = 1000;
  if (nodes_.empty()) nameless_.emplace(known_ = id_, now);
  const int newest =
      static_cast<int>(std::clamp<std::int64_t>(store_.add(nodes_key, 0), known_, most_ids));
  known_ = std::max(known_, newest - most_at_once);
  while (known_ < newest) nameless_.emplace(++known_, now);
  std::erase_if(nameless_, [&](const auto& newcomer) {
    const auto& [id, since] = newcomer;
    const auto introduction = store_.get(key_of("node", id));
    if (!introduction) return now - since > loss_;
    nodes_.push_back({id, decode_introduction(*introduction), {}, false});
    lives_[id].seen = now;
    return true;
  });
  std::ranges::sort(nodes_, {}, &NodeView::id);
}

void NodeGroup::look(NodeView& node, Time now) {
  if (node.lost || coordinator_->refused().contains(node.id)) return;
  if (const auto report = store_.get(key_of("report", node.id)))
    node.report = decode_report(*report);
  Life& life = lives_[node.id];
  const std::string sign = store_.get(key_of("alive", node.id)).value_or("");
  // A host that was stopped or starved has missed signs of life, they did not fail to come.
  const bool host_slept = now - looked_ > loss_ / 2;
  if (sign != life.sign || host_slept) life = {sign, now};
  node.lost = node.id != id_ && now - life.seen > loss_;
}

void NodeGroup::decide(Time now) {
  std::optional<Order> order = coordinator_->decide(nodes_, now);
  for (const auto& [id, why] : coordinator_->refused())
    if (told_.insert(id).second) store_.set(key_of("refusal", id), why);
  for (const NodeView& node : nodes_)
    if (node.lost && told_.insert(node.id).second)
      store_.set(key_of("refusal", node.id),
                 "the job went on without this node, which gave no sign of life for " +
                     std::to_string(loss_.count()) + " ms");
  if (!order) return;
  if (order->kind == Order::Kind::run) prepare_(*order);
  store_.set(order_key, encode(*order));
}

std::optional<Order> NodeGroup::read_order() {
  const auto text = store_.get(order_key);
  if (!text) return std::nullopt;
  Order order = decode_order(*text);
  if (order.number == last_order_) return std::nullopt;
  last_order_ = order.number;
  return order;
}

}  // namespace shampoo::launcher
