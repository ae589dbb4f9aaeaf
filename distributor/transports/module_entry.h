// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "distributor/system/library_version.h"
#include "kernels/module.h"

namespace shampoo {

/// What a transport's module has for the library, or why there is none.
template <typename Entry>
struct ModuleEntry {
  const Entry* entry = nullptr;
  std::string problem = {};
};

/// Loads libshampoo_<name>.so, whose function shampoo_<name>_module() returns its entry. The first
/// field of the entry, `shampoo_version`, has to be the library's version.
template <typename Entry>
ModuleEntry<Entry> load_entry(const std::string& name, kernels::Binding binding) {
  const kernels::Module module(name, binding);
  if (!module.loaded()) return {.problem = module.problem()};
  const auto entry = module.find<const Entry*()>(("shampoo_" + name + "_module").c_str());
  if (entry && entry()->shampoo_version == library_version()) return {.entry = entry()};
  return {.problem = "libshampoo_" + name + ".so is not of version " +
                     std::string(library_version()) + ", which this library has"};
}

}  // namespace shampoo
