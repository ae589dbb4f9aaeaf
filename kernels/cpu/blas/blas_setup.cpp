// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/blas/blas_setup.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cpu/blas/blas.h"

namespace shampoo::kernels {

namespace {

/// Functions that OpenBLAS exports in addition to BLAS; null with another library.
struct OpenBlas {
  char* (*core_name)();
  void (*set_threads)(int);
  int (*threads)();
  int (*processors)();
  void (*initialise)();
  void (*quit)();
  void* (*take_memory)(int);
  void (*give_memory)(void*);
  void (*end_threads)();
};

template <typename Function>
void find(Function*& function, const char* name) {
  function = blas::library().find<Function>(name);
}

OpenBlas open_blas() {
  OpenBlas found{};
  find(found.core_name, "openblas_get_corename");
  find(found.set_threads, "openblas_set_num_threads");
  find(found.threads, "openblas_get_num_threads");
  find(found.processors, "openblas_get_num_procs");
  find(found.initialise, "gotoblas_dynamic_init");
  find(found.quit, "gotoblas_dynamic_quit");
  find(found.take_memory, "blas_memory_alloc");
  find(found.give_memory, "blas_memory_free");
  find(found.end_threads, "blas_thread_shutdown_");
  return found;
}

template <typename Function>
std::string file_of(Function* function) {
  return std::filesystem::path(kernels::file_of(reinterpret_cast<const void*>(function)))
      .filename();
}

/// Where the functions lie that are called: "libopenblas.so.0", "libblas.so.3 and liblapack.so.3".
std::string files_in_use() {
  const blas::Routines<float>& called = blas::routines<float>();
  const std::string blas = file_of(called.gemm), lapack = file_of(called.syevd);
  return blas == lapack ? blas : blas + " and " + lapack;
}

/// True if the module contains BLAS, so that nothing else in the process uses this copy.
bool is_own() { return files_in_use().starts_with("libshampoo_blas."); }

enum class Vectors { sse, avx, avx2, avx512 };

Vectors of_processor() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    return Vectors::avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Vectors::avx2;
  if (__builtin_cpu_supports("avx")) return Vectors::avx;
#endif
  return Vectors::sse;
}

Vectors of_core(std::string_view core) {
  constexpr std::array avx512{"SkylakeX", "Cooperlake", "SapphireRapids", "Sapphirerapids",
                              "SAPPHIRERAPIDS"};
  constexpr std::array avx2{"Haswell", "Zen", "Excavator"};
  constexpr std::array avx{"Sandybridge", "Bulldozer", "Piledriver", "Steamroller"};
  const auto in = [core](const auto& names) {
    return std::find(names.begin(), names.end(), core) != names.end();
  };
  if (in(avx512)) return Vectors::avx512;
  if (in(avx2)) return Vectors::avx2;
  return in(avx) ? Vectors::avx : Vectors::sse;
}

/// The name of OpenBLAS's kernels that are known to be the fastest; null where its choice is good.
const char* better_core(std::string_view core) {
  const Vectors processor = of_processor();
  if (of_core(core) >= processor) return nullptr;
  if (processor == Vectors::avx512) return "SkylakeX";
  return processor == Vectors::avx2 ? "Haswell" : nullptr;
}

struct Change {
  std::once_flag once;
  std::string from;
};

Change& change() {
  static Change of_process;
  return of_process;
}

void repair_core(const OpenBlas& library) {
  constexpr const char* variable = "OPENBLAS_CORETYPE";
  if (!library.core_name || !library.initialise || !library.quit) return;
  const std::string core = library.core_name();
  const char* const better = better_core(core);
  if (better == nullptr) return;
  const char* const set = std::getenv(variable);
  const std::optional<std::string> before = set ? std::optional<std::string>(set) : std::nullopt;
  setenv(variable, better, 1);
  library.quit();
  library.initialise();
  if (before)
    setenv(variable, before->c_str(), 1);
  else
    unsetenv(variable);
  if (library.core_name() != core) change().from = core;
}

/// Threads of all BlasBuffers.
std::atomic<int> threads_of_process{0};

}  // namespace

void set_up_blas() {
  std::call_once(change().once, [] {
    const OpenBlas library = open_blas();
    repair_core(library);
    if (library.set_threads) library.set_threads(1);
    if (library.end_threads && is_own()) library.end_threads();
  });
}

BlasBuffers::BlasBuffers(int threads) : threads_(threads) {
  const int of_all = threads_of_process += threads_;
  const OpenBlas library = open_blas();
  if (!library.take_memory || !library.give_memory) return;
  // OpenBLAS's own threads take memory too, whenever they come to start.
  const bool has_threads = !is_own() || !library.threads || library.threads() > 1;
  const int own = has_threads && library.processors ? library.processors() : 0;
  constexpr int most = 128;  // Debian's build warns on the terminal beyond
  std::vector<void*> taken(static_cast<std::size_t>(std::min(of_all + own, most)));
  for (void*& memory : taken) memory = library.take_memory(0);
  for (void* memory : taken)
    if (memory != nullptr) library.give_memory(memory);
}

BlasBuffers::~BlasBuffers() { threads_of_process -= threads_; }

std::string blas_core() {
  const OpenBlas library = open_blas();
  if (library.core_name && file_of(library.core_name) == files_in_use())
    return std::string("OpenBLAS ") + library.core_name();
  return "BLAS in " + files_in_use();
}

std::string describe_blas() {
  const OpenBlas library = open_blas();
  std::string text = blas_core();
  if (!library.core_name) return text;
  if (library.threads) {
    const int threads = library.threads();
    text += ", " + std::to_string(threads) + (threads == 1 ? " thread" : " threads") + " per call";
  }
  text += is_own() ? ", a copy of the library's own" : ", shared with the program";
  if (!change().from.empty()) text += ", kernels changed from " + change().from;
  return text;
}

}  // namespace shampoo::kernels
