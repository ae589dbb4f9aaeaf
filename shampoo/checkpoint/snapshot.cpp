// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/snapshot.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <stdexcept>
#include <utility>

#include "shampoo/checkpoint/format/checksum.h"
#include "shampoo/checkpoint/format/manifest.h"
#include "shampoo/checkpoint/format/tensor_entry.h"
#include "shampoo/checkpoint_directory.h"
#include "shampoo/protocol/diagnostics.h"
#include "shampoo/state/optimizer_access.h"
#include "shampoo/update/strided_tiles.h"

namespace shampoo {

namespace {

[[noreturn]] void fail(const std::string& name, const std::string& what) {
  throw std::invalid_argument("user state '" + name + "': " + what);
}

void validate_tensor(const UserTensor& tensor) {
  if (tensor.name.empty()) fail(tensor.name, "name: must not be empty");
  for (const std::int64_t side : tensor.shape)
    if (side < 0) fail(tensor.name, "shape: must be >= 0, got " + shape_text(tensor.shape));
  const auto& strides = tensor.tensor.strides;
  if (!strides.empty() && strides != row_major_strides(tensor.shape))
    fail(tensor.name, "tensor.strides: must be those of a row-major tensor");
  if (static_cast<std::size_t>(tensor.tensor.dtype) >= checkpoint::dtypes().size())
    fail(tensor.name, "tensor.dtype: is not a type");
  if (!checkpoint::bytes_of(tensor.tensor.dtype, tensor.shape))
    fail(tensor.name, "shape: " + shape_text(tensor.shape) + " elements of type " +
                          std::string(name_of(tensor.tensor.dtype)) +
                          " must fill whole bytes, fewer than 2^61");
  if (bytes_of(tensor) > 0 && !tensor.tensor.data)
    fail(tensor.name, "tensor.data: must not be null");
}

void require_utf8(const std::string& name, const UserValue& text) {
  try {
    checkpoint::to_json(text);
  } catch (const CheckpointError&) {
    fail(name, "names and strings must be UTF-8");
  }
}

void take_tensor(kernels::Backend& backend, const UserTensor& tensor, Contents contents,
                 SnapshotTensor& taken) {
  const auto bytes = static_cast<std::size_t>(bytes_of(tensor));
  if (bytes == 0) return;
  if (contents == Contents::borrowed) {
    taken.bytes = {static_cast<const std::byte*>(tensor.tensor.data), bytes};
    return;
  }
  taken.copy.resize(bytes);
  taken.bytes = taken.copy;
  backend.download(taken.copy.data(), tensor.tensor.data, bytes);
}

}  // namespace

std::int64_t bytes_of(const UserTensor& tensor) {
  return static_cast<std::int64_t>(checkpoint::bytes_of(tensor.tensor.dtype, tensor.shape).value());
}

void validate_user_state(const UserState& user) {
  std::set<std::string_view> names;
  for (const UserTensor& tensor : user.tensors) {
    require_utf8(tensor.name, tensor.name);
    validate_tensor(tensor);
    if (!names.insert(tensor.name).second) fail(tensor.name, "name: must be unique");
  }
  for (const auto& [name, value] : user.values) {
    require_utf8(name, name);
    require_utf8(name, value);
  }
}

std::vector<int> assign_writers(const std::vector<UserTensor>& tensors, int ranks) {
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
  for (const SnapshotTensor& tensor : data_->user_tensors)
    sum += static_cast<std::int64_t>(tensor.bytes.size());
  return sum;
}

Snapshot snapshot(const Optimizer& optimizer, const UserState& user, bool derived) {
  return take_snapshot(optimizer, user, derived, Contents::copied);
}

Snapshot take_snapshot(const Optimizer& optimizer, const UserState& user, bool derived,
                       Contents contents) {
  validate_user_state(user);
  auto data = std::make_unique<Snapshot::Data>();
  kernels::Backend& backend = OptimizerAccess::backend(optimizer);
  const Engine& engine = OptimizerAccess::engine(optimizer);
  data->rank = OptimizerAccess::communicator(optimizer).rank();
  data->ranks = OptimizerAccess::communicator(optimizer).size();
  data->plan_hash = OptimizerAccess::protocol(optimizer).plan_hash();
  data->user_values = user.values;
  data->derived = derived;
  for (const RegisteredParameter& registered : engine.parameters())
    data->merged_shapes.emplace(registered.parameter().name, registered.merged);
  const StateDictOptions options{.derived = derived, .contents = contents == Contents::copied};
  data->state = optimizer.state_dict(options);
  if (contents == Contents::borrowed) data->sources = sources_of(engine, options);

  const std::vector<int> writers = assign_writers(user.tensors, data->ranks);
  for (std::size_t t = 0; t < user.tensors.size(); ++t) {
    const UserTensor& tensor = user.tensors[t];
    SnapshotTensor& taken = data->user_tensors.emplace_back(
        SnapshotTensor{tensor.name, tensor.tensor.dtype, tensor.shape, writers[t], {}, {}});
    if (writers[t] == data->rank) take_tensor(backend, tensor, contents, taken);
  }
  backend.synchronize();
  return Snapshot(std::move(data));
}

std::string request_text(const Snapshot::Data& data) {
  std::string text = "steps attempted: " + std::to_string(data.state.progress.attempts) +
                     "\nplan: " + checkpoint::hexadecimal(data.plan_hash) +
                     "\nderived: " + (data.derived ? "true" : "false") + "\n";
  for (const SnapshotTensor& tensor : data.user_tensors)
    text += "user tensor '" + tensor.name + "': " + shape_text(tensor.shape) + ", " +
            std::string(name_of(tensor.dtype)) + "\n";
  for (const auto& [name, value] : data.user_values)
    text += "user value '" + name + "': " + checkpoint::to_json(value) + "\n";
  return text;
}

}  // namespace shampoo
