// SPDX-License-Identifier: Apache-2.0
#include "tests/shampoo/checkpoint/checkpoint_faults/system_calls.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <utility>

namespace shampoo::checkpoint::test {
namespace {

std::atomic<CallWatch::Decide*> watching = nullptr;
std::atomic<bool> watches_all = false;
std::mutex deciding;
std::size_t calls = 0;
thread_local bool decides = false;

/// What is decided, about one call after the other; itself unwatched.
CallFault decide(const std::string& call) {
  if (decides) return {};
  const std::lock_guard lock(deciding);
  CallWatch::Decide* const decider = watching;
  if (decider == nullptr) return {};
  decides = true;
  const CallFault fault = (*decider)(calls++, call);
  decides = false;
  return fault;
}

std::string path_of(int file) {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(file), error).string();
}

template <typename Work>
long watched(const std::string& call, const Work& work) {
  const CallFault fault = decide(call);
  if (fault.wait) fault.wait();
  if (fault.fate == Fate::fails_though_done) work(fault);
  if (fault.fate == Fate::happens || fault.fate == Fate::shortened) return work(fault);
  errno = fault.error;
  return -1;
}

int open_watched(const char* path, int flags, mode_t mode) {
  const auto work = [=](const CallFault&) {
    return ::syscall(SYS_openat, AT_FDCWD, path, flags, mode);
  };
  if (watching == nullptr) return static_cast<int>(work({}));
  return static_cast<int>(watched("open " + std::string(path), work));
}

int rename_watched(const char* call, const char* from, const char* to, unsigned flags) {
  const auto work = [=](const CallFault&) {
    return ::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, flags);
  };
  if (watching == nullptr) return static_cast<int>(work({}));
  return static_cast<int>(watched(call + std::string(from) + " " + to, work));
}

}  // namespace

CallWatch::CallWatch(Decide decide, Calls watched) {
  calls = 0;
  watches_all = watched == Calls::all;
  watching = new Decide(std::move(decide));
}

CallWatch::~CallWatch() {
  const CallWatch::Decide* const decider = watching.exchange(nullptr);
  watches_all = false;
  const std::lock_guard lock(deciding);
  delete decider;
}

std::vector<std::string> calls_of(const std::function<void()>& action) {
  std::vector<std::string> made;
  const CallWatch watch([&](std::size_t, const std::string& call) {
    made.push_back(call);
    return CallFault{};
  });
  action();
  return made;
}

}  // namespace shampoo::checkpoint::test

// The linker takes these definitions for the whole program.
extern "C" {

using shampoo::checkpoint::test::CallFault;
using shampoo::checkpoint::test::Fate;
using shampoo::checkpoint::test::open_watched;
using shampoo::checkpoint::test::path_of;
using shampoo::checkpoint::test::rename_watched;
using shampoo::checkpoint::test::watched;
using shampoo::checkpoint::test::watches_all;
using shampoo::checkpoint::test::watching;

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return open_watched(path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return open_watched(path, flags | O_LARGEFILE, mode);
}

ssize_t write(int file, const void* bytes, std::size_t count) {
  const auto work = [=](const CallFault& fault) {
    const bool shorter = fault.fate == Fate::shortened && count > 1;
    return ::syscall(SYS_write, file, bytes, shorter ? 1 : count);
  };
  if (watching == nullptr) return work({});
  return watched("write " + path_of(file), work);
}

int fsync(int file) {
  const auto work = [=](const CallFault&) { return ::syscall(SYS_fsync, file); };
  if (watching == nullptr) return static_cast<int>(work({}));
  return static_cast<int>(watched("fsync " + path_of(file), work));
}

int close(int file) {
  const auto work = [=](const CallFault&) { return ::syscall(SYS_close, file); };
  if (watching == nullptr) return static_cast<int>(work({}));
  return static_cast<int>(watched("close " + path_of(file), work));
}

int mkdir(const char* path, mode_t mode) noexcept {
  const auto work = [=](const CallFault&) { return ::syscall(SYS_mkdirat, AT_FDCWD, path, mode); };
  if (watching == nullptr) return static_cast<int>(work({}));
  return static_cast<int>(watched("mkdir " + std::string(path), work));
}

int lstat(const char* path, struct stat* status) noexcept {
  const auto work = [=](const CallFault&) {
    return ::syscall(SYS_newfstatat, AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW);
  };
  if (!watches_all) return static_cast<int>(work({}));
  return static_cast<int>(watched("status " + std::string(path), work));
}

ssize_t pread(int file, void* into, std::size_t count, off_t offset) {
  const auto work = [=](const CallFault&) {
    return ::syscall(SYS_pread64, file, into, count, offset);
  };
  if (!watches_all) return work({});
  return watched("read " + path_of(file), work);
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  const auto work = [=](const CallFault&) { return ::syscall(SYS_unlinkat, folder, path, flags); };
  if (!watches_all) return static_cast<int>(work({}));
  return static_cast<int>(watched("unlink " + path_of(folder) + "/" + path, work));
}

int rename(const char* from, const char* to) noexcept {
  return rename_watched("rename ", from, to, 0);
}

int renameat2(int, const char* from, int, const char* to, unsigned flags) noexcept {
  return rename_watched(flags == RENAME_EXCHANGE ? "exchange " : "rename_to_new ", from, to, flags);
}
}
