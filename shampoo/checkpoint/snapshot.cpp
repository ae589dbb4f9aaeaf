// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/snapshot.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <utility>

#include "grouping/hash.h"
#include "grouping/number_text.h"
#include "shampoo/checkpoint/format/json_rows.h"
#include "shampoo/checkpoint/format/manifest.h"
#include "shampoo/checkpoint/format/tensor_entry.h"
#include "shampoo/checkpoint_directory.h"
#include "shampoo/protocol/diagnostics.h"
#include "shampoo/state/optimizer_access.h"
#include "shampoo/update/slots.h"
#include "shampoo/update/strided_tiles.h"
#include "shampoo/validation/option_names.h"
#include "shampoo/validation/utf8.h"

namespace shampoo {

template <>
struct OptionNames<Sharding> {
  static constexpr std::array<std::string_view, 2> all{"shared", "per_rank"};
};

namespace {

[[noreturn]] void fail(const std::string& name, const std::string& what) {
  throw std::invalid_argument("user state '" + name + "': " + what);
}

void validate_tensor(const UserTensor& tensor) {
  if (tensor.name.empty()) fail(tensor.name, "name: must not be empty");
  for (const std::int64_t side : tensor.shape)
    if (side < 0) fail(tensor.name, "shape: must be >= 0, got " + shape_text(tensor.shape));
  if (tensor.shape.size() > checkpoint::limits::sides)
    fail(tensor.name, "shape: must have at most " + std::to_string(checkpoint::limits::sides) +
                          " sides, got " + std::to_string(tensor.shape.size()));
  const auto& strides = tensor.tensor.strides;
  if (!strides.empty() && strides != row_major_strides(tensor.shape))
    fail(tensor.name, "tensor.strides: must be those of a row-major tensor");
  if (static_cast<std::size_t>(tensor.tensor.dtype) >= checkpoint::dtypes().size())
    fail(tensor.name, "tensor.dtype: is not a type");
  require_enumerator("user state '" + tensor.name + "': sharding", tensor.sharding);
  if (!checkpoint::bytes_of(tensor.tensor.dtype, tensor.shape))
    fail(tensor.name, "shape: " + shape_text(tensor.shape) + " elements of type " +
                          std::string(name_of(tensor.tensor.dtype)) +
                          " must fill whole bytes, fewer than 2^61");
  if (bytes_of(tensor) > 0 && !tensor.tensor.data)
    fail(tensor.name, "tensor.data: must not be null");
}

void require_utf8(const std::string& name, std::string_view text) {
  if (!is_utf8(text)) fail(name, "names and strings must be UTF-8");
}

void require_values(const std::map<std::string, UserValue>& values) {
  std::size_t units = checkpoint::units_of_list;
  for (const auto& [name, value] : values) {
    require_utf8(name, name);
    if (const auto* const text = std::get_if<std::string>(&value)) require_utf8(name, *text);
    units += checkpoint::units_of(name, value);
    if (units > checkpoint::limits::value_units)
      fail(name,
           "values may have 32 MiB together, and this one exceeds that; a tensor may be larger");
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

void copy_contents(kernels::Backend& backend, SnapshotMemory& memory, Snapshot::Data& data) {
  Copies copies;
  std::vector<std::size_t> state, user;
  for (std::size_t t = 0; t < data.sources.size(); ++t)
    state.push_back(
        copies.add(data.sources[t].data, bytes_at(data.state.tensors[t], data.sources[t])));
  for (const SnapshotTensor& tensor : data.user_tensors)
    user.push_back(copies.add(tensor.bytes.data(), tensor.bytes.size()));
  const std::byte* const begin = copies.copy(backend, memory);
  for (std::size_t t = 0; t < state.size(); ++t) data.sources[t].data = begin + state[t];
  for (std::size_t t = 0; t < user.size(); ++t)
    data.user_tensors[t].bytes = {begin + user[t], data.user_tensors[t].bytes.size()};
  backend.synchronize();
}

/// Blocks of all parameters, in the order of their names.
std::vector<SnapshotBlocks> blocks_of(const Engine& engine, bool derived) {
  const std::span<const RegisteredParameter> parameters = engine.parameters();
  std::map<std::string_view, std::size_t> by_name;
  for (std::size_t row = 0; row < parameters.size(); ++row)
    if (!parameters[row].is_frozen()) by_name.emplace(parameters[row].parameter().name, row);
  std::vector<SnapshotBlocks> rows(parameters.size());
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const RegisteredParameter& registered = parameters[row];
    rows[row].size = registered.group->recipe().blocking.size;
    rows[row].owners.resize(registered.boxes.size());
    if (registered.boxes.empty()) continue;
    for (const Slot& slot : slots_of(registered.group->recipe(), registered.boxes.front().extent,
                                     registered.parameter().value.type))
      if (derived || !slot.derived)
        rows[row].slots.push_back({slot.name, slot.layout,
                                   slot.layout == StateLayout::elements ? 0 : slot.dimension,
                                   checkpoint::dtype_of(slot.type)});
  }
  const grouping::Plan& plan = engine.plan();
  for (std::size_t v = 0; v < plan.blocks.size(); ++v)
    for (const grouping::Block& block : plan.blocks[v]) {
      const auto row = engine.row(plan.virtual_groups[v].members[block.member]);
      rows[row].owners[block.index] = static_cast<std::uint32_t>(block.owner);
    }
  std::vector<SnapshotBlocks> sorted;
  for (const auto& [name, row] : by_name) sorted.push_back(std::move(rows[row]));
  return sorted;
}

/// XXH3 of a shared tensor, to find ranks that have another one: of all bytes of up to 1 MiB, of
/// larger tensors of 64 parts of 16 KiB, evenly spread. Waits for the backend.
std::uint64_t sample_checksum(kernels::Backend& backend, const UserTensor& tensor) {
  constexpr std::size_t whole = std::size_t{1} << 20, part = std::size_t{16} << 10;
  const auto bytes = static_cast<std::size_t>(bytes_of(tensor));
  const auto* const data = static_cast<const std::byte*>(tensor.tensor.data);
  const bool in_parts = bytes > whole;
  const std::size_t count = in_parts ? whole / part : 1, size = in_parts ? part : bytes;
  const auto offset = [&](std::size_t p) { return p == 0 ? 0 : (bytes - size) * p / (count - 1); };
  grouping::Hash sum;
  if (backend.memory_kind() == MemoryKind::host) {
    for (std::size_t p = 0; p < count; ++p) sum.add({data + offset(p), size});
    return sum.value();
  }
  std::vector<std::byte> copy(count * size);
  for (std::size_t p = 0; p < count && size > 0; ++p)
    backend.download(copy.data() + p * size, data + offset(p), size);
  backend.synchronize();
  sum.add(copy);
  return sum.value();
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
  require_values(user.values);
  require_values(user.rank_values);
  for (const auto& [name, value] : user.rank_values)
    if (user.values.contains(name)) fail(name, "must be a value of all ranks or of each, not both");
}

std::vector<int> assign_writers(const std::vector<UserTensor>& tensors, int ranks) {
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](std::size_t t) { return bytes_of(tensors[t]); });
  std::vector<std::int64_t> loads(static_cast<std::size_t>(ranks));
  std::vector<int> writers(tensors.size());
  for (const std::size_t t : order) {
    writers[t] = -1;
    if (tensors[t].sharding == Sharding::per_rank) continue;
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
  return Snapshot(take_snapshot(optimizer, user, derived, Contents::copied));
}

std::unique_ptr<Snapshot::Data> take_snapshot(const Optimizer& optimizer, const UserState& user,
                                              bool derived, Contents contents,
                                              const FindMemory& find) {
  validate_user_state(user);
  auto data = std::make_unique<Snapshot::Data>();
  kernels::Backend& backend = OptimizerAccess::backend(optimizer);
  const Engine& engine = OptimizerAccess::engine(optimizer);
  data->rank = OptimizerAccess::communicator(optimizer).rank();
  data->ranks = OptimizerAccess::communicator(optimizer).size();
  data->plan_hash = OptimizerAccess::protocol(optimizer).plan_hash();
  data->user_values = user.values;
  data->rank_values = user.rank_values;
  data->derived = derived;
  if (data->rank == 0) data->blocks = blocks_of(engine, derived);
  const StateDictOptions options{.derived = derived, .contents = false};
  data->state = optimizer.state_dict(options);
  data->sources = sources_of(engine, options);

  const std::vector<int> writers = assign_writers(user.tensors, data->ranks);
  for (std::size_t t = 0; t < user.tensors.size(); ++t) {
    const UserTensor& tensor = user.tensors[t];
    SnapshotTensor& taken = data->user_tensors.emplace_back();
    taken.name = tensor.name;
    taken.dtype = tensor.tensor.dtype;
    taken.shape = tensor.shape;
    taken.sharding = tensor.sharding;
    taken.writer = writers[t] >= 0 ? writers[t] : data->rank;
    if (tensor.sharding == Sharding::shared && data->ranks > 1)
      taken.sample = sample_checksum(backend, tensor);
    if (taken.writer == data->rank)
      taken.bytes = {static_cast<const std::byte*>(tensor.tensor.data),
                     static_cast<std::size_t>(bytes_of(tensor))};
  }
  if (contents == Contents::copied || backend.memory_kind() != MemoryKind::host) {
    data->memory.push_back(find ? find(optimizer) : std::make_shared<SnapshotMemory>(backend));
    copy_contents(backend, *data->memory.front(), *data);
  }
  return data;
}

std::string request_text(const Snapshot::Data& data) {
  std::string text = "steps attempted: " + std::to_string(data.state.progress.attempts) +
                     "\nplan: " + grouping::hexadecimal(data.plan_hash) +
                     "\nderived: " + (data.derived ? "true" : "false") + "\n";
  for (const checkpoint::SavedOptimizer& optimizer : data.optimizers)
    text += "optimizer '" + optimizer.name +
            "': steps attempted: " + std::to_string(optimizer.progress.attempts) +
            ", plan: " + grouping::hexadecimal(optimizer.plan_hash) + "\n";
  for (const SnapshotTensor& tensor : data.user_tensors)
    text += "user tensor '" + tensor.name + "': " + std::string(name_of(tensor.dtype)) +
            (tensor.sharding == Sharding::per_rank
                 ? ", per rank"
                 : ", " + shape_text(tensor.shape) + ", contents with the checksum " +
                       grouping::hexadecimal(tensor.sample)) +
            "\n";
  for (const auto& [name, value] : data.user_values)
    text += "user value '" + name + "': " + checkpoint::to_json(value) + "\n";
  for (const auto& [name, value] : data.rank_values)
    text += "user value '" + name + "': of each rank\n";
  return text;
}

}  // namespace shampoo
