// SPDX-License-Identifier: Apache-2.0
#include "distributor/rendezvous/registration.h"

#include <algorithm>
#include <optional>

#include "distributor/communicator.h"
#include "distributor/serialization.h"

namespace shampoo::rendezvous {
namespace {

/// Empty for a record of another library version.
template <typename Record>
std::optional<Record> read_record(const std::string& bytes) {
  try {
    return deserialize<Record>(bytes);
  } catch (const CommunicationError&) {
    return std::nullopt;
  }
}

/// "rank 2 (host node7, process 4711)".
std::string name_of(int rank, const ProcessInfo& info) {
  return "rank " + std::to_string(rank) + " (host " + info.host + ", process " +
         std::to_string(info.identity.id) + ")";
}

std::string shortened(const std::string& text) {
  constexpr std::size_t most = 200;
  return text.size() <= most ? text : text.substr(0, most) + "...";
}

/// Why the two cannot take part in one job; empty if they can.
std::string mismatch(const Registration& one, const Registration& other) {
  if (one.rank > other.rank) return mismatch(other, one);
  const auto differ = [&](const std::string& what, const std::string& first,
                          const std::string& second) {
    return name_of(one.rank, one.process) + " has the " + what + " " + first + ", " +
           name_of(other.rank, other.process) + " has " + second;
  };
  if (one.library != other.library) return differ("library version", one.library, other.library);
  if (one.size != other.size)
    return differ("world size", std::to_string(one.size), std::to_string(other.size));
  if (one.transport != other.transport) return differ("transport", one.transport, other.transport);
  if (one.build != other.build)
    return differ("build", "\"" + shortened(one.build) + "\"",
                  "\"" + shortened(other.build) + "\"");
  return {};
}

bool are_same(const ProcessInfo& one, const ProcessInfo& other) {
  return one.host == other.host && one.identity == other.identity;
}

/// Whether a registration is of an earlier attempt, by the process that holds this one's rank and
/// the first one to come. The latter may have fewer restarts in this attempt, too, and may have
/// ended with an error of this attempt.
bool is_over(StoreGather& gather, const ProcessInfo& holder,
             const std::optional<Registration>& terms, const ProcessInfo& self) {
  if (holder.restarts < self.restarts || has_ended(holder.identity)) return true;
  if (!terms) return false;
  const bool is_before = terms->process.restarts < self.restarts;
  const bool is_gone = has_ended(terms->process.identity);
  if (!is_before && !is_gone) return false;
  return gather.has_result() ? is_before : is_gone;
}

/// Why this process cannot take part, with the record that stands under its rank; empty if it can.
std::string find_problem(const ProcessInfo& holder, const std::optional<Registration>& terms,
                         const Registration& self, const RegistrationOptions& options) {
  if (!are_same(holder, self.process))
    return "two processes are rank " + std::to_string(self.rank) + ": " +
           name_of(self.rank, holder) + " and " + name_of(self.rank, self.process);
  if (!terms)
    return name_of(self.rank, self.process) + " has the library version " + self.library +
           ", another rank has a different one";
  const std::string text = mismatch(*terms, self);
  if (!text.empty() || options.failure.empty()) return text;
  return name_of(self.rank, self.process) + ": " + options.failure;
}

RegistrationResult finish(const std::string& prefix, const std::string& problem,
                          GatherResult gathered) {
  RegistrationResult result{.prefix = prefix,
                            .error = gathered.error.empty() ? problem : gathered.error,
                            .missing_ranks = std::move(gathered.missing_ranks)};
  if (!gathered.records.empty()) result.summary = std::move(gathered.records.front());
  return result;
}

/// The records of all processes would be bytes that grow with the square of their number.
StoreGather::Digest digest_of(const RegistrationOptions& options) {
  return [&options](GatherResult& result) {
    std::vector<ProcessInfo> processes;
    try {
      for (const std::string& record : result.records)
        processes.push_back(deserialize<ProcessInfo>(record));
      result.records = {options.summarize ? options.summarize(processes) : ""};
    } catch (const std::exception& error) {
      result = {.error = error.what()};
    }
  };
}

}  // namespace

RegistrationResult register_rank(Store& store, const Registration& self,
                                 const RegistrationOptions& options) {
  constexpr std::chrono::milliseconds reading_time{3'000};
  const std::string next_attempt = "the job has begun another attempt";
  for (int n = 0;; ++n) {
    const std::string prefix = options.prefix + "/" + std::to_string(n);
    StoreGather gather(store, prefix, self.size, digest_of(options));
    const auto holder = read_record<ProcessInfo>(gather.claim(self.rank, serialize(self.process)))
                            .value_or(ProcessInfo{});
    if (are_same(holder, self.process) && holder.call != self.process.call) continue;
    const auto terms =
        read_record<Registration>(store.set_if_absent(prefix + "/terms", serialize(self)));
    if (StoreGather::Clock::now() < options.end && is_over(gather, holder, terms, self.process)) {
      gather.publish({.error = next_attempt});
      continue;
    }
    const std::string problem = find_problem(holder, terms, self, options);
    if (problem.empty())
      gather.arrive();
    else
      gather.publish({.error = problem});
    GatherResult gathered = gather.wait(options.end);
    if (gathered.error == next_attempt) continue;
    if (!gathered.ready()) {
      const auto readers = self.size - static_cast<int>(gathered.missing_ranks.size());
      gather.wait_for_readers(readers, options.serves_store ? reading_time : reading_time * 0);
    }
    return finish(prefix, problem, std::move(gathered));
  }
}

}  // namespace shampoo::rendezvous
