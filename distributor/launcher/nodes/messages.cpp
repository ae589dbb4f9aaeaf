// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/nodes/messages.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace shampoo::launcher {

using Json = nlohmann::json;

NLOHMANN_JSON_SERIALIZE_ENUM(Stage, {{Stage::waiting, "waiting"},
                                     {Stage::running, "running"},
                                     {Stage::succeeded, "succeeded"},
                                     {Stage::failed, "failed"},
                                     {Stage::broken, "broken"},
                                     {Stage::leaving, "leaving"},
                                     {Stage::done, "done"}})
NLOHMANN_JSON_SERIALIZE_ENUM(OrderKind, {{OrderKind::wait, "wait"},
                                         {OrderKind::run, "run"},
                                         {OrderKind::end, "end"}})
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Introduction, host, pid, workers, role)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Report, stage, order, attempt, code, text, heartbeat)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Member, workers, role)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Order, number, kind, attempt, members, code, text)

namespace {

bool valid(const JobTerms&) { return true; }
bool valid(const Report&) { return true; }
bool valid(const Member& member) { return member.workers >= 1 && member.workers <= 65'535; }
bool valid(const Introduction& introduction) { return valid(Member{introduction.workers, ""}); }
bool valid(const Order& order) {
  return order.number >= 1 && order.attempt >= 0 &&
         std::ranges::all_of(order.members, [](const Member& member) { return valid(member); });
}

}  // namespace

std::string name_of(const Introduction& introduction, int node) {
  return "node " + std::to_string(node) + " on " + introduction.host + " (pid " +
         std::to_string(introduction.pid) + ")";
}

template <class Message>
std::string encode(const Message& message) {
  return Json(message).dump(-1, ' ', false, Json::error_handler_t::replace);
}

template <class Message>
std::optional<Message> decode(const std::string& text) {
  try {
    auto message = Json::parse(text).get<Message>();
    if (valid(message)) return message;
  } catch (const Json::exception&) {  // not one of ours
  }
  return std::nullopt;
}

template std::string encode(const JobTerms&);
template std::string encode(const Introduction&);
template std::string encode(const Report&);
template std::string encode(const Order&);
template std::optional<JobTerms> decode(const std::string&);
template std::optional<Introduction> decode(const std::string&);
template std::optional<Report> decode(const std::string&);
template std::optional<Order> decode(const std::string&);

}  // namespace shampoo::launcher
