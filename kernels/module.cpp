// SPDX-License-Identifier: Apache-2.0
#include "kernels/module.h"

#include <dlfcn.h>
#include <link.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <vector>

namespace shampoo::kernels {

namespace {

/// The file that contains this code: a shared library or the program.
struct Self {
  link_map* map = nullptr;
  std::filesystem::path file;
};

Self self() {
  Dl_info info{};
  Self found;
  void* map = nullptr;
  if (dladdr1(reinterpret_cast<const void*>(&self), &info, &map, RTLD_DL_LINKMAP) == 0) return {};
  found.map = static_cast<link_map*>(map);
  const bool is_program = found.map->l_name[0] == '\0';
  std::error_code ignored;
  found.file = std::filesystem::canonical(is_program ? "/proc/self/exe" : info.dli_fname, ignored);
  return found;
}

/// Where the dynamic linker looks for what `map` opens.
std::vector<std::string> search_path(link_map* map) {
  std::vector<std::string> folders;
  Dl_serinfo size{};
  if (!map || dlinfo(map, RTLD_DI_SERINFOSIZE, &size) != 0) return folders;
  const auto memory =
      std::make_unique<std::max_align_t[]>(size.dls_size / sizeof(std::max_align_t) + 1);
  auto* const list = reinterpret_cast<Dl_serinfo*>(memory.get());
  list->dls_size = size.dls_size;
  list->dls_cnt = size.dls_cnt;
  if (dlinfo(map, RTLD_DI_SERINFO, list) != 0) return folders;
  for (unsigned i = 0; i < list->dls_cnt; ++i) folders.emplace_back(list->dls_serpath[i].dls_name);
  return folders;
}

std::vector<std::string> folders() {
  const Self own = self();
  std::vector<std::string> found = search_path(own.map);
  const std::filesystem::path folder = own.file.parent_path();
  found.push_back(folder / "shampoo");
  found.push_back(folder.parent_path() / SHAMPOO_MODULE_FOLDER);
  return found;
}

/// Sanitizers end the process over it; they replace functions for all libraries.
bool may_bind_deeply() { return dlsym(RTLD_DEFAULT, "__sanitizer_print_stack_trace") == nullptr; }

std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

Module::Module(const std::string& name, Binding binding) {
  const std::string file = "libshampoo_" + name + ".so";
  const bool deep = binding == Binding::own && may_bind_deeply();
  const std::vector<std::string> looked_in = folders();
  for (const std::string& folder : looked_in) {
    const std::filesystem::path path = std::filesystem::path(folder) / file;
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) continue;
    handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | (deep ? RTLD_DEEPBIND : 0));
    if (!handle_) problem_ = dlerror();
    return;
  }
  absent_ = true;
  problem_ = file + ": not found in " + list_of(looked_in);
}

void* Module::address(const char* name) const { return handle_ ? dlsym(handle_, name) : nullptr; }

std::string file_of(const void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0 || !info.dli_fname) return {};
  std::error_code failed;
  const auto path = std::filesystem::canonical(info.dli_fname, failed);
  return failed ? info.dli_fname : path.string();
}

}  // namespace shampoo::kernels
