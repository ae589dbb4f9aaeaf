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
         std::to_string(info.process) + ")";
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
    return differ("build", "\"" + one.build + "\"", "\"" + other.build + "\"");
  return {};
}

/// Why this process, whose record stands under its rank, cannot take part; empty if it can.
std::string find_problem(Store& store, const std::string& prefix, const Registration& self,
                         const RegistrationOptions& options) {
  const auto terms =
      read_record<Registration>(store.set_if_absent(prefix + "/terms", serialize(self)));
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
  for (int n = 0;; ++n) {
    const std::string prefix = options.prefix + "/" + std::to_string(n);
    StoreGather gather(store, prefix, self.size, digest_of(options));
    const std::string own = serialize(self.process), holder = gather.claim(self.rank, own);
    std::string problem;
    if (holder == own) {
      problem = find_problem(store, prefix, self, options);
    } else {
      const ProcessInfo other = read_record<ProcessInfo>(holder).value_or(ProcessInfo{});
      const bool is_self = other.host == self.process.host && other.process == self.process.process;
      if (is_self) continue;
      problem = "two processes are rank " + std::to_string(self.rank) + ": " +
                name_of(self.rank, other) + " and " + name_of(self.rank, self.process);
    }
    if (problem.empty())
      gather.arrive();
    else
      gather.publish({.error = problem});
    GatherResult gathered = gather.wait(options.end);
    if (!gathered.ready()) {
      const auto readers = self.size - static_cast<int>(gathered.missing_ranks.size());
      gather.wait_for_readers(readers, options.serves_store ? reading_time : reading_time * 0);
    }
    return finish(prefix, problem, std::move(gathered));
  }
}

}  // namespace shampoo::rendezvous
