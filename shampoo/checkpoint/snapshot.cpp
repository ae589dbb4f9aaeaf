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

/// Copies of arrays of a backend, one after the other, each array once.
class Copies {
 public:
  /// The offset of the array's copy.
  std::size_t add(const void* array, std::size_t bytes) {
    constexpr std::size_t alignment = 64;
    const auto [known, is_new] = offsets_.emplace(Array{array, bytes}, end_);
    if (is_new) end_ += (bytes + alignment - 1) / alignment * alignment;
    return known->second;
  }

  /// Queued.
  std::byte* copy(kernels::Backend& backend, SnapshotMemory& memory) const {
    std::byte* const begin = memory.reserve(end_);
    for (const auto& [array, offset] : offsets_)
      if (array.second > 0) backend.download(begin + offset, array.first, array.second);
    return begin;
  }

 private:
  using Array = std::pair<const void*, std::size_t>;
  std::map<Array, std::size_t> offsets_;
  std::size_t end_ = 0;
};

std::size_t bytes_at(const StateTensor& tensor, const StateSource& source) {
  return tensor.layout == StateLayout::elements
             ? static_cast<std::size_t>(tensor.count()) * size_of(tensor.type)
             : array_bytes(source.storage);
}

void copy_contents(kernels::Backend& backend, Snapshot::Data& data) {
  Copies copies;
  std::vector<std::size_t> state, user;
  for (std::size_t t = 0; t < data.sources.size(); ++t)
    state.push_back(
        copies.add(data.sources[t].data, bytes_at(data.state.tensors[t], data.sources[t])));
  for (const SnapshotTensor& tensor : data.user_tensors)
    user.push_back(copies.add(tensor.bytes.data(), tensor.bytes.size()));
  const std::byte* const begin = copies.copy(backend, *data.memory);
  for (std::size_t t = 0; t < state.size(); ++t) data.sources[t].data = begin + state[t];
  for (std::size_t t = 0; t < user.size(); ++t)
    data.user_tensors[t].bytes = {begin + user[t], data.user_tensors[t].bytes.size()};
  backend.synchronize();
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
  std::int64_t sum = 0;
  for (const StateTensor& tensor : data_->state.tensors)
    sum += tensor.count() * static_cast<std::int64_t>(size_of(tensor.type));
  for (const SnapshotTensor& tensor : data_->user_tensors)
    sum += static_cast<std::int64_t>(tensor.bytes.size());
  return sum;
}

std::unique_ptr<SnapshotMemory> Snapshot::take_memory() { return std::move(data_->memory); }

std::byte* SnapshotMemory::reserve(std::size_t bytes) {
  if (bytes > capacity_) {
    memory_ = {};
    capacity_ = 0;
    memory_ = kernels::HostBuffer(backend_, bytes);
    capacity_ = bytes;
  }
  return static_cast<std::byte*>(memory_.data());
}

Snapshot snapshot(const Optimizer& optimizer, const UserState& user, bool derived) {
  return take_snapshot(optimizer, user, derived, Contents::copied);
}

Snapshot take_snapshot(const Optimizer& optimizer, const UserState& user, bool derived,
                       Contents contents, std::unique_ptr<SnapshotMemory> memory) {
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
  const StateDictOptions options{.derived = derived, .contents = false};
  data->state = optimizer.state_dict(options);
  data->sources = sources_of(engine, options);

  const std::vector<int> writers = assign_writers(user.tensors, data->ranks);
  for (std::size_t t = 0; t < user.tensors.size(); ++t) {
    const UserTensor& tensor = user.tensors[t];
    SnapshotTensor& taken = data->user_tensors.emplace_back(
        SnapshotTensor{tensor.name, tensor.tensor.dtype, tensor.shape, writers[t], {}});
    if (writers[t] == data->rank)
      taken.bytes = {static_cast<const std::byte*>(tensor.tensor.data),
                     static_cast<std::size_t>(bytes_of(tensor))};
  }
  if (contents == Contents::copied) {
    data->memory = memory ? std::move(memory) : std::make_unique<SnapshotMemory>(backend);
    copy_contents(backend, *data);
  }
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
