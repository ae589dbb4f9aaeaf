// SPDX-License-Identifier: Apache-2.0
#include "shampoo/update/evaluation_values.h"

#include <map>
#include <utility>

#include "distributor/segment_header.h"
#include "shampoo/averaging/averaging.h"

namespace shampoo {

grouping::Segments value_segments_of(grouping::Plan plan, std::span<const Group* const> groups) {
  for (std::size_t v = 0; v < plan.virtual_groups.size(); ++v)
    if (!has_evaluation_values(groups[plan.virtual_groups[v].members.front().group]->recipe()))
      plan.blocks[v].clear();
  for (std::size_t g = 0; g < groups.size(); ++g)
    for (std::size_t p = 0; p < groups[g]->parameters().size(); ++p)
      plan.groups[g].parameters[p].element_bytes =
          static_cast<std::int64_t>(size_of(groups[g]->parameters()[p].value.type));
  return grouping::segments(plan, sizeof(SegmentHeader));
}

EvaluationValues::EvaluationValues(kernels::Backend& backend, const Engine& engine)
    : backend_(backend), engine_(engine), settled_(backend) {
  const grouping::Segments& segments = engine.value_segments();
  for (std::size_t v = 0; v < segments.blocks.size(); ++v)
    if (!segments.blocks[v].empty()) append_group(static_cast<int>(v));
  const auto rank = static_cast<std::size_t>(engine.rank());
  const std::int64_t first = segments.begins[rank] + std::int64_t{sizeof(SegmentHeader)};
  if (engine.plan().ranks == 1)
    own_segments_ = kernels::Buffer(backend, static_cast<std::size_t>(segments.begins.back()));
  training_values_ =
      kernels::Buffer(backend, static_cast<std::size_t>(segments.begins[rank + 1] - first));
  upload();
}

void EvaluationValues::append_group(int v) {
  const auto group_index = static_cast<std::size_t>(v);
  const grouping::Plan& plan = engine_.plan();
  const std::vector<std::int64_t>& segments = engine_.value_segments().blocks[group_index];
  const auto block_of = [&](int row, std::int64_t segment, kernels::Block block) {
    block.tensor = row;
    block.segment = segment;
    block.wire_type = engine_.parameters()[row].parameter().value.type;
    block.is_value = true;
    return block;
  };
  std::map<std::pair<int, int>, std::int64_t> places;  // by row and index
  for (std::size_t b = 0; b < segments.size(); ++b) {
    const grouping::Block& planned = plan.blocks[group_index][b];
    const int row = engine_.row(plan.virtual_groups[group_index].members[planned.member]);
    const RegisteredParameter& registered = engine_.parameters()[row];
    all_.append(registered, registered.boxes[planned.index], block_of(row, segments[b], {}), 0);
    places[{row, planned.index}] = segments[b];
  }

  const GroupStep& group = *engine_.group_steps()[group_index];
  OwnBlocks& own = own_.emplace_back(OwnBlocks{.group = &group});
  for (const OwnedBlock& owned : group.blocks()) {
    const RegisteredParameter& registered = engine_.parameters()[owned.parameter];
    own.table.append(registered, registered.boxes[owned.index],
                     block_of(owned.parameter, places.at({owned.parameter, owned.index}),
                              {.master = owned.master}),
                     owned.flat);
    own.factors.push_back(
        evaluation_extrapolation(group.recipe(), registered.group->rates_of(registered.index)));
  }
}

void EvaluationValues::upload() {
  const auto send = [&](kernels::Buffer& to, const void* from, std::size_t bytes) {
    to = kernels::Buffer(backend_, bytes);
    if (bytes > 0) backend_.upload(to.data(), from, bytes);
  };
  for (OwnBlocks& own : own_) {
    own.table.upload(backend_);
    send(own.extrapolations, own.factors.data(), own.factors.size() * sizeof(double));
  }
  all_.upload(backend_);
  modes_.assign(all_.blocks().size(), kernels::Mode::preconditioned);
  send(sent_modes_, modes_.data(), modes_.size() * sizeof(kernels::Mode));
  send(sent_proceed_, &proceed_, sizeof(proceed_));
}

char* EvaluationValues::segments() const {
  void* const exchanged =
      engine_.plan().ranks == 1 ? own_segments_.data() : engine_.value_exchange()->data();
  return static_cast<char*>(exchanged);
}

char* EvaluationValues::own_segment() const {
  const auto rank = static_cast<std::size_t>(engine_.rank());
  return segments() + engine_.value_segments().begins[rank] + sizeof(SegmentHeader);
}

void EvaluationValues::compute() {
  const auto elements = [&](const OwnBlocks& own) {
    return own.table.elements(arithmetic_type(own.group->recipe()), engine_.tensors());
  };
  for (const OwnBlocks& own : own_) backend_.pack_values(elements(own), segments());
  if (training_values_.bytes() > 0)
    backend_.copy(training_values_.data(), own_segment(), training_values_.bytes());
  for (const OwnBlocks& own : own_)
    backend_.evaluate(elements(own),
                      {.extrapolations = static_cast<const double*>(own.extrapolations.data()),
                       .iterate = own.group->evaluation_source(),
                       .masters = own.group->state().flat(master_slot),
                       .segment = segments()});
}

void EvaluationValues::recall() {
  if (training_values_.bytes() > 0)
    backend_.copy(own_segment(), training_values_.data(), training_values_.bytes());
}

void EvaluationValues::assign() {
  backend_.apply(all_.elements(Type::float64, engine_.tensors()),
                 static_cast<const kernels::Mode*>(sent_modes_.data()), segments(),
                 static_cast<const std::int32_t*>(sent_proceed_.data()));
}

std::int64_t EvaluationValues::bytes() const {
  std::int64_t bytes =
      all_.bytes() + static_cast<std::int64_t>(training_values_.bytes() + own_segments_.bytes() +
                                               sent_modes_.bytes() + sent_proceed_.bytes());
  for (const OwnBlocks& own : own_)
    bytes += own.table.bytes() + static_cast<std::int64_t>(own.extrapolations.bytes());
  return bytes;
}

}  // namespace shampoo
