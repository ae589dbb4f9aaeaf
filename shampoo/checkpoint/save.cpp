// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/save.h"

#include <stdexcept>
#include <system_error>

#include "shampoo/checkpoint/reader.h"
#include "shampoo/checkpoint/storage/checkpoint_directory.h"
#include "shampoo/checkpoint/storage/directory_operations.h"
#include "shampoo/checkpoint/storage/file.h"

namespace shampoo::checkpoint {
namespace {

/// One save, as one rank sees it.
class Saving {
 public:
  Saving(const SavePlace& place, const SaveSteps& steps)
      : place_(place),
        steps_(steps),
        temporary_(place.root / temporary_name(place.step, place.save)),
        final_(place.root / folder_name(place.step)) {}

  std::filesystem::path run() {
    stage([&] {
      require_place();
      if (leads()) begin();
    });
    stage([&] {
      steps_.write(temporary_);
      // The entries that a rank made are synced by its own machine.
      sync_folder(temporary_);
    });
    Manifest manifest;
    stage([&] { manifest = steps_.manifest(); });
    stage([&] {
      if (leads()) commit(manifest);
      // A vote that a peer did not live to see takes nothing away.
      made_.clear();
    });
    return final_;
  }

 private:
  bool leads() const { return place_.rank == 0; }

  template <typename Work>
  void stage(const Work& work) {
    std::exception_ptr mine;
    try {
      work();
    } catch (...) {
      mine = std::current_exception();
    }
    try {
      steps_.vote(mine);
    } catch (...) {
      undo();
      throw;
    }
  }

  void require_place() const {
    if (place_.step < 0) throw std::invalid_argument("save: step must not be negative");
    if (!is_save_id(place_.save))
      throw std::invalid_argument("save: its id must be one of new_save_id()");
  }

  void begin() {
    make_folders(place_.root);
    require_new();
    make_folder(temporary_);
    made_ = temporary_;
  }

  void require_new() const {
    if (std::filesystem::exists(std::filesystem::symlink_status(final_)))
      throw std::invalid_argument("save: " + final_.string() +
                                  " exists; checkpoints are never overwritten");
  }

  void commit(const Manifest& manifest) {
    if (manifest.save != place_.save)
      throw std::invalid_argument("save: the manifest is of another save");
    const std::string text = to_json(manifest);
    require_complete(temporary_, manifest, place_.step);

    const std::filesystem::path name = temporary_ / manifest_name;
    const std::filesystem::path unnamed = name.string() + ".tmp";
    write_file(unnamed, text);
    rename_entry(unnamed, name);
    sync_folder(temporary_);
    require_new();
    rename_entry(temporary_, final_);
    made_ = final_;
    sync_folder(place_.root);
  }

  // Only after a vote, when no rank writes any more. What cannot be removed is a leftover.
  void undo() noexcept {
    if (made_.empty()) return;
    std::error_code nothing;
    if (made_ == final_) std::filesystem::rename(final_, temporary_, nothing);
    std::filesystem::remove_all(temporary_, nothing);
  }

  const SavePlace& place_;
  const SaveSteps& steps_;
  std::filesystem::path temporary_, final_;
  std::filesystem::path made_;  ///< to be removed after a failure; may be empty
};

}  // namespace

std::filesystem::path save_folder(const SavePlace& place, const SaveSteps& steps) {
  return Saving(place, steps).run();
}

}  // namespace shampoo::checkpoint
