// SPDX-License-Identifier: Apache-2.0
#include <iterator>
#include <utility>

#include "shampoo/checkpoint/named_optimizers.h"
#include "shampoo/checkpoint/snapshot.h"

namespace shampoo {
namespace {

void name_optimizer(Snapshot::Data& data, const std::string& name) {
  const std::string scope = checkpoint::scope_of(name);
  for (ParameterState& parameter : data.state.parameters) parameter.name.insert(0, scope);
  for (StateTensor& tensor : data.state.tensors) tensor.parameter.insert(0, scope);
  data.optimizers.push_back({name, data.state.arithmetic, data.plan_hash, data.state.progress});
}

template <typename Element>
void append(std::vector<Element>& all, std::vector<Element>& more) {
  std::ranges::move(more, std::back_inserter(all));
}

/// `more` has no user state.
void append(Snapshot::Data& all, Snapshot::Data& more) {
  append(all.state.parameters, more.state.parameters);
  append(all.state.tensors, more.state.tensors);
  append(all.optimizers, more.optimizers);
  append(all.sources, more.sources);
  append(all.memory, more.memory);
  append(all.blocks, more.blocks);
}

}  // namespace

Snapshot take_snapshot(const Optimizers& optimizers, const UserState& user, bool derived,
                       Contents contents, const FindMemory& find) {
  std::unique_ptr<Snapshot::Data> all;
  for (const auto& [name, optimizer] : optimizers.all()) {
    auto own = take_snapshot(optimizer, all ? UserState() : user, derived, contents, find);
    if (optimizers.are_named()) name_optimizer(*own, name);
    if (all)
      append(*all, *own);
    else
      all = std::move(own);
  }
  return Snapshot(std::move(all));
}

Snapshot snapshot(const Optimizers& optimizers, const UserState& user, bool derived) {
  checkpoint::validate(optimizers);
  return take_snapshot(optimizers, user, derived, Contents::copied);
}

}  // namespace shampoo
