// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/save_job.h"

#include <stdexcept>
#include <system_error>

#include "distributor/text_consensus.h"
#include "shampoo/checkpoint/storage/checkpoint_directory.h"

namespace shampoo::checkpoint {
namespace {

/// What one rank has thrown, all throw.
void vote(StepProtocol& protocol, const std::exception_ptr& mine) {
  protocol.vote(saving_checkpoint, "outcome", [&] {
    if (mine) std::rethrow_exception(mine);
    return std::string();
  });
}

void remove_old(const std::filesystem::path& folder, int keep_last) {
  const std::string what =
      folder.string() + " is complete, but older checkpoints could not be removed: ";
  try {
    retain_latest(folder.parent_path(), keep_last);
  } catch (const std::system_error& error) {
    const std::string meaning = ": " + error.code().message();
    std::string text = what + error.what();
    if (text.ends_with(meaning)) text.resize(text.size() - meaning.size());
    throw std::system_error(error.code(), text);
  }
}

}  // namespace

Snapshot agreed_snapshot(Optimizer& optimizer, const Extras& extras, bool derived,
                         Contents contents) {
  std::optional<Snapshot> copy;
  StepProtocol& protocol = OptimizerAccess::protocol(optimizer);
  protocol.check_usable();
  protocol.vote(saving_checkpoint, "call", [&] {
    copy.emplace(take_snapshot(optimizer, extras, derived, contents));
    return std::string();
  });
  return std::move(*copy);
}

SavePlace agree_on_save(Optimizer& optimizer, const Snapshot& snapshot,
                        const std::filesystem::path& root, const SaveOptions& options) {
  StepProtocol& protocol = OptimizerAccess::protocol(optimizer);
  protocol.check_usable();
  const Snapshot::Data& data = snapshot.data();
  SavePlace place{
      .root = root, .step = options.step.value_or(snapshot.step()), .save = {}, .rank = data.rank};
  protocol.vote(saving_checkpoint, "request", [&] {
    if (place.step < 0)
      throw std::invalid_argument("save: step: must be >= 0, got " + std::to_string(place.step));
    if (options.keep_last < 0)
      throw std::invalid_argument("save: keep_last: must be >= 0, got " +
                                  std::to_string(options.keep_last));
    return "root: " + root.string() + "\nstep: " + std::to_string(place.step) +
           "\nkeep_last: " + std::to_string(options.keep_last) + "\n" + request_text(data);
  });
  protocol.together([&] {
    place.save =
        gather_texts(OptimizerAccess::backend(optimizer), OptimizerAccess::communicator(optimizer),
                     place.rank == 0 ? new_save_id() : std::string())
            .front();
  });
  return place;
}

std::filesystem::path run_save(Optimizer& optimizer, const Snapshot& snapshot,
                               const SavePlace& place, const SaveOptions& options,
                               const Collectively& collectively,
                               std::atomic<std::int64_t>& written) {
  StepProtocol& protocol = OptimizerAccess::protocol(optimizer);
  const Snapshot::Data& data = snapshot.data();
  WrittenFile file;
  const SaveSteps steps{
      .write = [&](const auto& folder) { file = write_shard(data, folder, place, written); },
      .manifest =
          [&] {
            std::vector<std::string> reports;
            collectively([&] {
              protocol.together([&] {
                reports = gather_texts(OptimizerAccess::backend(optimizer),
                                       OptimizerAccess::communicator(optimizer),
                                       words_of_report(file, data.state));
              });
            });
            return place.rank == 0 ? manifest_of(data, place, reports) : Manifest();
          },
      .vote = [&](const auto& mine) { collectively([&] { vote(protocol, mine); }); }};
  const std::filesystem::path folder = save_folder(place, steps);
  if (options.keep_last > 0) {
    std::exception_ptr mine;
    try {
      if (place.rank == 0) remove_old(folder, options.keep_last);
    } catch (...) {
      mine = std::current_exception();
    }
    collectively([&] { vote(protocol, mine); });
  }
  return folder;
}

}  // namespace shampoo::checkpoint

namespace shampoo {

std::filesystem::path save(Optimizer& optimizer, const std::filesystem::path& root,
                           const Extras& extras, const SaveOptions& options) {
  const bool in_host_memory = OptimizerAccess::backend(optimizer).memory_kind() == MemoryKind::host;
  const Snapshot state = checkpoint::agreed_snapshot(
      optimizer, extras, options.derived, in_host_memory ? Contents::borrowed : Contents::copied);
  const checkpoint::SavePlace place = checkpoint::agree_on_save(optimizer, state, root, options);
  std::atomic<std::int64_t> written = 0;
  return checkpoint::run_save(
      optimizer, state, place, options, [](const auto& work) { work(); }, written);
}

}  // namespace shampoo
