// SPDX-License-Identifier: Apache-2.0
#include "processes.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "distributor/store/store_server.h"

namespace shampoo {
namespace {

bool of_a_launcher(std::string_view name) {
  for (const std::string_view begin :
       {"RANK=", "WORLD_SIZE=", "LOCAL_RANK=", "LOCAL_WORLD_SIZE=", "MASTER_", "TORCHELASTIC_",
        "OMPI_COMM_", "PMI_", "MPI_LOCAL", "SLURM_", "TORCH_NCCL", "NCCL_"}) {
    if (name.starts_with(begin)) return true;
  }
  return false;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  all.reserve(texts.size() + 1);
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

}  // namespace

Process::Process(const std::vector<std::string>& words,
                 const std::map<std::string, std::string>& variables) {
  std::vector<std::string> arguments = words, block;
  for (char** next = environ; *next != nullptr; ++next) {
    if (!of_a_launcher(*next)) block.emplace_back(*next);
  }
  for (const auto& [name, value] : variables) block.push_back(name + "=" + value);
  const std::vector<char*> argument_pointers = pointers(arguments),
                           variable_pointers = pointers(block);
  // A file takes any amount while nobody reads.
  output_ = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (output_ < 0) throw std::runtime_error("cannot make a temporary file");
  process_ = fork();
  if (process_ < 0) throw std::runtime_error("cannot fork");
  if (process_ == 0) {
    setpgid(0, 0);
    dup2(output_, STDOUT_FILENO);
    dup2(output_, STDERR_FILENO);
    execve(arguments[0].c_str(), argument_pointers.data(), variable_pointers.data());
    _exit(127);
  }
  setpgid(process_, process_);
}

Process::~Process() {
  kill(-process_, SIGKILL);
  if (!ended_) waitpid(process_, nullptr, 0);
  close(output_);
}

int Process::wait(std::chrono::seconds longest) {
  const auto end = std::chrono::steady_clock::now() + longest;
  while (!ended_) {
    int status = 0;
    if (waitpid(process_, &status, WNOHANG) == process_) {
      ended_ = true;
      code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    } else if (std::chrono::steady_clock::now() > end) {
      return -1;
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  return code_;
}

std::string Process::output() const {
  std::string text;
  std::array<char, 4096> part{};
  for (off_t at = 0;;) {
    const ssize_t count = pread(output_, part.data(), part.size(), at);
    if (count <= 0) return text;
    text.append(part.data(), static_cast<std::size_t>(count));
    at += count;
  }
}

int free_port() { return StoreServer().port(); }

}  // namespace shampoo
