// SPDX-License-Identifier: Apache-2.0
#include "tests/shampoo/checkpoint/command/named_checkpoint.h"

#include <cstddef>

#include "shampoo/checkpoint/shard_writer.h"
#include "shampoo/checkpoint/storage/checkpoint_folder.h"
#include "shampoo/checkpoint/storage/pending_checkpoint.h"

namespace shampoo::checkpoint::command::test {

std::filesystem::path save_named(const std::filesystem::path& directory, std::int64_t step,
                                 const std::vector<std::string>& tensors,
                                 const std::map<std::string, UserValue>& values) {
  PendingCheckpoint pending(directory, step, new_save_id());
  pending.create();
  Manifest manifest;
  manifest.save = pending.save();
  manifest.step = step;
  manifest.user_values = values;
  std::vector<TensorDescription> descriptions;
  for (const std::string& name : tensors) {
    descriptions.push_back({"user/" + name, Dtype::u8, {}});
    manifest.user_tensors.push_back({name, Dtype::u8, {}, 0});
  }
  ShardWriter writer(pending.temporary(), "file.safetensors", descriptions, pending.save(), step);
  writer.write(std::vector<std::byte>(tensors.size(), std::byte{1}));
  manifest.files = {writer.finish()};
  pending.commit(manifest);
  return pending.folder();
}

}  // namespace shampoo::checkpoint::command::test
