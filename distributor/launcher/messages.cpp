// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/messages.h"

#include <iomanip>
#include <sstream>

#include "distributor/error.h"

namespace shampoo::launcher {

namespace {

constexpr std::size_t most_entries = 1 << 20;

/// Reads fields one after the other; any that is missing or out of range is an error.
class Fields {
 public:
  explicit Fields(const std::string& text) : stream_(text) {}

  template <class Number>
  void number(Number& value, long long least, long long most) {
    long long got = 0;
    check(static_cast<bool>(stream_ >> got) && got >= least && got <= most);
    value = static_cast<Number>(got);
  }
  void text(std::string& value) { check(static_cast<bool>(stream_ >> std::quoted(value))); }

 private:
  static void check(bool good) {
    if (!good) throw CommunicationError("the job's store holds a message of another program");
  }
  std::istringstream stream_;
};

constexpr long long most_int = 0x7fffffff;

}  // namespace

std::string Introduction::name() const {
  return (node_rank < 0 ? "node " : "node " + std::to_string(node_rank) + " on ") + host +
         " (pid " + std::to_string(pid) + ")";
}

std::string encode(const Introduction& introduction) {
  std::ostringstream out;
  out << std::quoted(introduction.host) << ' ' << introduction.pid << ' ' << introduction.workers
      << ' ' << std::quoted(introduction.role) << ' ' << introduction.node_rank << ' '
      << introduction.terms.size();
  for (const auto& [name, value] : introduction.terms)
    out << ' ' << std::quoted(name) << ' ' << std::quoted(value);
  return out.str();
}

Introduction decode_introduction(const std::string& text) {
  Introduction result;
  Fields fields(text);
  fields.text(result.host);
  fields.number(result.pid, 0, most_int);
  fields.number(result.workers, 1, most_int);
  fields.text(result.role);
  fields.number(result.node_rank, -1, most_int);
  std::size_t terms = 0;
  fields.number(terms, 0, most_entries);
  for (std::size_t i = 0; i < terms; ++i) {
    std::string name;
    fields.text(name);
    fields.text(result.terms[name]);
  }
  return result;
}

std::string encode(const Report& report) {
  std::ostringstream out;
  out << static_cast<int>(report.stage) << ' ' << report.order << ' ' << report.attempt << ' '
      << report.code << ' ' << std::quoted(report.text);
  return out.str();
}

Report decode_report(const std::string& text) {
  Report result;
  Fields fields(text);
  fields.number(result.stage, 0, static_cast<int>(Stage::done));
  fields.number(result.order, 0, most_int);
  fields.number(result.attempt, -1, most_int);
  fields.number(result.code, 0, most_int);
  fields.text(result.text);
  return result;
}

std::string encode(const Order& order) {
  std::ostringstream out;
  out << order.number << ' ' << static_cast<int>(order.kind) << ' ' << order.attempt << ' '
      << order.restarts << ' ' << std::quoted(order.store_host) << ' ' << order.store_port << ' '
      << order.code << ' ' << std::quoted(order.text) << ' ' << order.members.size();
  for (const Member& member : order.members)
    out << ' ' << member.id << ' ' << member.workers << ' ' << std::quoted(member.role);
  return out.str();
}

Order decode_order(const std::string& text) {
  Order result;
  Fields fields(text);
  fields.number(result.number, 1, most_int);
  fields.number(result.kind, 0, static_cast<int>(Order::Kind::end));
  fields.number(result.attempt, 0, most_int);
  fields.number(result.restarts, 0, most_int);
  fields.text(result.store_host);
  fields.number(result.store_port, 0, 65'535);
  fields.number(result.code, 0, most_int);
  fields.text(result.text);
  std::size_t members = 0;
  fields.number(members, 0, most_entries);
  result.members.reserve(members);
  for (std::size_t i = 0; i < members; ++i) {
    Member& member = result.members.emplace_back();
    fields.number(member.id, 1, most_int);
    fields.number(member.workers, 1, most_int);
    fields.text(member.role);
  }
  return result;
}

}  // namespace shampoo::launcher
