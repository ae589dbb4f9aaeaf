// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <stdexcept>
#include <string>

#include "distributor/system/library_version.h"
#include "kernels/module.h"

namespace shampoo {

/// What a transport's module has for the library, or why there is none.
template <typename Entry>
struct ModuleEntry {
  const Entry* entry = nullptr;
  std::string problem = {};
  bool absent = false;  ///< there is no such file
};

/// Loads libshampoo_<name>.so, whose function shampoo_<name>_module() returns its entry. The first
/// field of the entry, `shampoo_version`, has to be the library's version.
template <typename Entry>
ModuleEntry<Entry> load_entry(const std::string& name, kernels::Binding binding) {
  const kernels::Module module(name, binding);
  if (!module.loaded()) return {.problem = module.problem(), .absent = module.absent()};
  const auto entry = module.find<const Entry*()>(("shampoo_" + name + "_module").c_str());
  if (entry && entry()->shampoo_version == library_version()) return {.entry = entry()};
  return {.problem = "libshampoo_" + name + ".so is not of version " +
                     std::string(library_version()) + ", which this library has"};
}

/// The same, once it was loaded without doing so again. A problem is not kept, as it may pass: the
/// process may have been out of descriptors.
template <typename Entry>
ModuleEntry<Entry> entry_of(const char* name, kernels::Binding binding) {
  static std::atomic<const Entry*> kept = nullptr;
  if (const Entry* entry = kept) return {.entry = entry};
  auto loaded = load_entry<Entry>(name, binding);
  if (loaded.entry) kept = loaded.entry;
  return loaded;
}

/// Throws std::invalid_argument unless the module is loaded. `library` names what the packages,
/// with which a build makes the module, have.
template <typename Entry>
const Entry& require_entry(const ModuleEntry<Entry>& module, const std::string& library,
                           const std::string& packages, const std::string& option) {
  if (module.entry) return *module.entry;
  std::string text = library + ": " + module.problem;
  if (module.absent)
    text +=
        "; a build with the package " + packages + " and -D" + option + "=ON makes and installs it";
  throw std::invalid_argument(text);
}

}  // namespace shampoo
