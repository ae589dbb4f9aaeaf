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

constexpr int most_workers = 65'535;

template <class Message>
std::string dump(const Message& message) {
  return Json(message).dump(-1, ' ', false, Json::error_handler_t::replace);
}

template <class Message>
std::optional<Message> parse(const std::string& text) {
  try {
    return Json::parse(text).get<Message>();
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

bool has_workers(const Member& member) {
  return member.workers >= 1 && member.workers <= most_workers;
}

}  // namespace

std::string name_of(const Introduction& introduction, int node) {
  return "node " + std::to_string(node) + " on " + introduction.host + " (pid " +
         std::to_string(introduction.pid) + ")";
}

std::string encode(const JobTerms& terms) { return dump(terms); }
std::string encode(const Introduction& introduction) { return dump(introduction); }
std::string encode(const Report& report) { return dump(report); }
std::string encode(const Order& order) { return dump(order); }

std::optional<JobTerms> decode_terms(const std::string& text) { return parse<JobTerms>(text); }

std::optional<Introduction> decode_introduction(const std::string& text) {
  auto result = parse<Introduction>(text);
  if (result && !has_workers({result->workers, ""})) result.reset();
  return result;
}

std::optional<Report> decode_report(const std::string& text) { return parse<Report>(text); }

std::optional<Order> decode_order(const std::string& text) {
  auto result = parse<Order>(text);
  if (result && (result->number < 1 || result->attempt < 0 ||
                 !std::ranges::all_of(result->members, has_workers)))
    result.reset();
  return result;
}

}  // namespace shampoo::launcher
