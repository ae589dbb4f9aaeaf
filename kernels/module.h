// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace shampoo::kernels {

/// Whose functions the libraries of a module call where the program has some of the same name.
enum class Binding {
  own,     ///< those that the module was linked with
  program  ///< the program's, such as its MPI or a profiler's wrappers
};

/// A shared object of this library, through which it reaches a library that the program, or
/// something else in the process, may have linked in another version: its names are hidden from
/// the program. Loaded when needed and never unloaded.
class Module {
 public:
  /// Loads libshampoo_<name>.so from the folders in which the dynamic linker looks for libraries of
  /// this one (run path, LD_LIBRARY_PATH, the system's), then from shampoo/ beside the file that
  /// this library is in, and from ../lib/shampoo. Does not throw if there is none.
  Module(const std::string& name, Binding binding);

  bool loaded() const { return handle_ != nullptr; }
  /// There is no such file.
  bool absent() const { return absent_; }
  /// Why it is not loaded: "libshampoo_gloo.so: not found in A, B, C".
  const std::string& problem() const { return problem_; }

  /// A function of the module or of the libraries that it was linked with; null if there is none.
  template <typename Function>
  Function* find(const char* name) const {
    return reinterpret_cast<Function*>(address(name));
  }

 private:
  void* address(const char* name) const;

  void* handle_ = nullptr;
  std::string problem_;
  bool absent_ = false;
};

/// Path of the file from which a function or object was loaded, without symbolic links.
std::string file_of(const void* address);

}  // namespace shampoo::kernels
