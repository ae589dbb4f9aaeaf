// SPDX-License-Identifier: Apache-2.0
#include "launched_job.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace shampoo::launcher::test {

namespace {

constexpr std::chrono::seconds long_time{120};

std::string content(const std::filesystem::path& path) {
  // A process of /proc may end meanwhile, which is no error here.
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

[[noreturn]] void execute(std::vector<std::string>& words, const std::string& output,
                          const std::string& marker) {
  const int file = open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  dup2(file, STDOUT_FILENO);
  dup2(file, STDERR_FILENO);
  setenv("LAUNCHED_JOB", marker.c_str(), 1);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execv(pointers[0], pointers.data());
  _exit(127);
}

}  // namespace

bool comes_true(const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + long_time;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    poll(nullptr, 0, 10);
  }
  return true;
}

LaunchedJob::LaunchedJob(std::vector<std::string> flags, std::vector<std::string> actions,
                         const std::string& program) {
  std::vector<std::string> words{SHAMPOORUN, "--no-python", "--log-dir", folder_ + "/logs"};
  words.insert(words.end(), flags.begin(), flags.end());
  words.push_back(program.empty() ? LAUNCHED_WORKER : program);
  words.insert(words.end(), actions.begin(), actions.end());
  start(words);
}

LaunchedJob::LaunchedJob(std::vector<std::string> command) { start(command); }

void LaunchedJob::start(std::vector<std::string>& command) {
  std::ofstream(folder_ + "/output").flush();
  pid_ = fork();
  if (pid_ == 0) execute(command, folder_ + "/output", folder_);
}

LaunchedJob::~LaunchedJob() {
  for (const pid_t pid : processes()) kill(pid, SIGCONT);
  if (!code_) send(SIGKILL);
  for (const pid_t pid : processes()) kill(pid, SIGKILL);
  if (!code_) waitpid(pid_, nullptr, 0);
}

void LaunchedJob::send(int signal) const { kill(pid_, signal); }

int LaunchedJob::wait() {
  comes_true([&] {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) != pid_) return false;
    code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return true;
  });
  return code_.value_or(-1);
}

std::string LaunchedJob::output() const { return content(folder_ + "/output"); }

bool LaunchedJob::prints(const std::string& text) const {
  const auto ended = [&] {
    siginfo_t info{};
    const auto pid = static_cast<id_t>(pid_);
    return waitid(P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == pid_;
  };
  comes_true([&] { return ended() || count(text) > 0; });
  return count(text) > 0;
}

int LaunchedJob::count(const std::string& text) const {
  const std::string all = output();
  int result = 0;
  for (std::size_t at = all.find(text); at != std::string::npos; at = all.find(text, at + 1))
    ++result;
  return result;
}

std::vector<pid_t> LaunchedJob::processes() const {
  std::vector<pid_t> result;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (content(entry.path() / "environ").find("LAUNCHED_JOB=" + folder_) != std::string::npos)
      result.push_back(std::stoi(name));
  }
  return result;
}

bool LaunchedJob::leaves_nothing() const {
  return comes_true([&] { return processes().empty(); });
}

std::vector<pid_t> children_of(pid_t parent) {
  const std::string name = std::to_string(parent);
  std::ifstream file("/proc/" + name + "/task/" + name + "/children");
  return {std::istream_iterator<pid_t>(file), {}};
}

std::string free_port() { return Listener().port(); }

Listener::Listener() : socket_(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address);
  listen(socket_, 16);
}

std::string Listener::port() const {
  sockaddr_in6 address{};
  socklen_t size = sizeof address;
  getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
  return std::to_string(ntohs(address.sin6_port));
}

bool Listener::is_found() const {
  pollfd polled{socket_, POLLIN, 0};
  return poll(&polled, 1, 60'000) == 1;
}

void Listener::close() {
  if (socket_ >= 0) ::close(std::exchange(socket_, -1));
}

}  // namespace shampoo::launcher::test
