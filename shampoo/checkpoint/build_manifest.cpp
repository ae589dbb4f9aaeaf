// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/build_manifest.h"

#include <algorithm>
#include <stdexcept>

#include "shampoo/checkpoint/state_values.h"
#include "shampoo/checkpoint/user_state_text.h"

namespace shampoo::checkpoint {
namespace {

using Tensors = std::map<std::string, SavedTensor>;

void add_tensors(const ShardReport& report, const Snapshot::Data& snapshot, int rank,
                 Tensors& tensors) {
  const auto entries = shard_tensors(report.state, {}, snapshot.extras, rank);
  if (entries.size() != report.file.checksums.size())
    throw std::logic_error("rank " + std::to_string(rank) + " wrote another number of tensors");
  for (std::size_t e = 0; e < entries.size(); ++e) {
    SavedTensor& tensor = tensors[entries[e].name];
    tensor.name = entries[e].name;
    tensor.dtype = entries[e].dtype;
    tensor.shape = entries[e].shape;
    tensor.pieces.push_back({entries[e].box, shard_name(rank, snapshot.ranks), entries[e].key,
                             report.file.checksums[e]});
  }
}

/// What the ranks know together, without contents.
void add_state(const StateDict& of_rank, StateDict& full) {
  full.tensors.insert(full.tensors.end(), of_rank.tensors.begin(), of_rank.tensors.end());
  for (const ParameterState& here : of_rank.parameters) {
    const auto known = std::ranges::find(full.parameters, here.name, &ParameterState::name);
    known->blocks.insert(known->blocks.end(), here.blocks.begin(), here.blocks.end());
  }
}

}  // namespace

Manifest manifest_of(const Snapshot::Data& snapshot, const SavePlace& place,
                     std::span<const std::string> reports) {
  StateDict full{.format = snapshot.state.format,
                 .library = snapshot.state.library,
                 .arithmetic = snapshot.state.arithmetic,
                 .progress = snapshot.state.progress,
                 .parameters = snapshot.state.parameters};
  for (ParameterState& parameter : full.parameters) parameter.blocks.clear();

  Manifest manifest;
  manifest.save = place.save;
  manifest.library_version = full.library;
  manifest.world = snapshot.ranks;
  manifest.step = place.step;
  manifest.plan_hash = snapshot.plan_hash;
  manifest.arithmetic = full.arithmetic;
  Tensors tensors;
  for (int rank = 0; rank < snapshot.ranks; ++rank) {
    const ShardReport report = report_from(reports[static_cast<std::size_t>(rank)]);
    manifest.files.push_back(
        {shard_name(rank, snapshot.ranks), report.file.bytes, report.file.header_checksum});
    add_tensors(report, snapshot, rank, tensors);
    add_state(report.state, full);
  }
  for (auto& [name, tensor] : tensors) manifest.tensors.push_back(std::move(tensor));
  for (ParameterState& parameter : full.parameters)
    std::ranges::sort(parameter.blocks, {}, &BlockState::box);
  add_values(describe_state(full, snapshot.derived), manifest.values);
  for (const auto& [name, value] : snapshot.values)
    manifest.values[std::string(extra_prefix) + name] = extra_text(value);
  return manifest;
}

}  // namespace shampoo::checkpoint
