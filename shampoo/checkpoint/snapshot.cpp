// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/snapshot.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <stdexcept>

#include "shampoo/checkpoint/format/tensor_entry.h"
#include "shampoo/checkpoint/user_state_text.h"
#include "shampoo/protocol/diagnostics.h"
#include "shampoo/state/optimizer_access.h"
#include "shampoo/update/strided_tiles.h"

namespace shampoo {

namespace {

[[noreturn]] void fail(const std::string& name, const std::string& what) {
  throw std::invalid_argument("extra '" + name + "': " + what);
}

void validate_extra(const ExtraTensor& extra) {
  if (extra.name.empty()) fail(extra.name, "name: must not be empty");
  for (const std::int64_t side : extra.shape)
    if (side < 0) fail(extra.name, "shape: must be >= 0, got " + shape_text(extra.shape));
  const auto& strides = extra.tensor.strides;
  if (!strides.empty() && strides != row_major_strides(extra.shape))
    fail(extra.name, "tensor.strides: must be those of a row-major tensor");
  if (static_cast<std::size_t>(extra.tensor.dtype) >= checkpoint::dtypes().size())
    fail(extra.name, "tensor.dtype: is not a type");
  if (!checkpoint::bytes_of(extra.tensor.dtype, extra.shape))
    fail(extra.name, "shape: " + shape_text(extra.shape) + " elements of type " +
                         std::string(name_of(extra.tensor.dtype)) +
                         " must fill whole bytes, fewer than 2^61");
  if (bytes_of(extra) > 0 && !extra.tensor.data) fail(extra.name, "tensor.data: must not be null");
}

void take_extra(Backend& backend, const ExtraTensor& extra, Contents contents,
                SnapshotExtra& taken) {
  const auto bytes = static_cast<std::size_t>(bytes_of(extra));
  if (bytes == 0) return;
  if (contents == Contents::borrowed) {
    taken.bytes = {static_cast<const std::byte*>(extra.tensor.data), bytes};
    return;
  }
  taken.copy.resize(bytes);
  taken.bytes = taken.copy;
  backend.download(taken.copy.data(), extra.tensor.data, bytes);
}

}  // namespace

std::int64_t bytes_of(const ExtraTensor& extra) {
  return static_cast<std::int64_t>(checkpoint::bytes_of(extra.tensor.dtype, extra.shape).value());
}

void validate_extras(const Extras& extras) {
  std::set<std::string_view> names;
  for (const ExtraTensor& extra : extras.tensors) {
    validate_extra(extra);
    if (!names.insert(extra.name).second) fail(extra.name, "name: must be unique");
  }
}

std::vector<int> place_extras(const std::vector<ExtraTensor>& tensors, int ranks) {
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](std::size_t t) { return bytes_of(tensors[t]); });
  std::vector<std::int64_t> loads(static_cast<std::size_t>(ranks));
  std::vector<int> writers(tensors.size());
  for (const std::size_t t : order) {
    const auto idlest = std::ranges::min_element(loads);
    *idlest += bytes_of(tensors[t]);
    writers[t] = static_cast<int>(idlest - loads.begin());
  }
  return writers;
}

Snapshot::Snapshot(std::unique_ptr<Data> data) : data_(std::move(data)) {}
Snapshot::~Snapshot() = default;
Snapshot::Snapshot(Snapshot&&) noexcept = default;
Snapshot& Snapshot::operator=(Snapshot&&) noexcept = default;

std::int64_t Snapshot::step() const { return data_->state.progress.attempts; }

std::int64_t Snapshot::bytes() const {
  std::int64_t sum = data_->state.bytes();
  for (const SnapshotExtra& extra : data_->extras)
    sum += static_cast<std::int64_t>(extra.bytes.size());
  return sum;
}

Snapshot snapshot(const Optimizer& optimizer, const Extras& extras, bool derived) {
  return take_snapshot(optimizer, extras, derived, Contents::copied);
}

Snapshot take_snapshot(const Optimizer& optimizer, const Extras& extras, bool derived,
                       Contents contents) {
  validate_extras(extras);
  auto data = std::make_unique<Snapshot::Data>();
  Backend& backend = OptimizerAccess::backend(optimizer);
  data->rank = OptimizerAccess::communicator(optimizer).rank();
  data->ranks = OptimizerAccess::communicator(optimizer).size();
  data->plan_hash = OptimizerAccess::protocol(optimizer).plan_hash();
  data->values = extras.values;
  data->derived = derived;
  const StateDictOptions options{.derived = derived, .contents = contents == Contents::copied};
  data->state = optimizer.state_dict(options);
  if (contents == Contents::borrowed)
    data->sources = sources_of(OptimizerAccess::engine(optimizer), options);

  const std::vector<int> writers = place_extras(extras.tensors, data->ranks);
  for (std::size_t t = 0; t < extras.tensors.size(); ++t) {
    const ExtraTensor& extra = extras.tensors[t];
    data->extras.push_back({extra.name, extra.tensor.dtype, extra.shape, writers[t], {}, {}});
    if (writers[t] == data->rank) take_extra(backend, extra, contents, data->extras.back());
  }
  backend.synchronize();
  return Snapshot(std::move(data));
}

std::string request_text(const Snapshot::Data& data) {
  std::string text = "steps attempted: " + std::to_string(data.state.progress.attempts) +
                     "\nderived: " + (data.derived ? "true" : "false") + "\n";
  for (const SnapshotExtra& extra : data.extras)
    text += "extra '" + extra.name + "': " + shape_text(extra.shape) + ", " +
            std::string(name_of(extra.dtype)) + "\n";
  for (const auto& [name, value] : data.values)
    text += "extra value '" + name + "': " + extra_text(value) + "\n";
  return text;
}

}  // namespace shampoo
