// SPDX-License-Identifier: Apache-2.0
// A worker for the launcher's tests. Does what its arguments say, in their order:
//   print                where it is, as one line
//   environment=FOLDER   all its variables, each followed by a zero byte, into FOLDER/<rank>
//   attempt=N, rank=N    the next argument only counts in this attempt, on this rank
//   store                adds to a counter in the job's store, prints the sum
//   ignore=S, note=S     ignores signal S; prints its number when it comes, or came, in a sleep
//   child                a child that ignores SIGTERM
//   leaderless            goes on without its first thread
//   error=TEXT           writes the error file
//   report=CONTENT       writes the error file, word for word
//   raise=S, exit=N, sleep=MS, forever
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>

#include "distributor/store/store.h"

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::string attempt() { return variable("TORCHELASTIC_RESTART_COUNT"); }

/// In one write, so that workers do not mix their lines.
void say(const std::string& text) {
  const std::string line = text + "\n";
  if (write(STDOUT_FILENO, line.data(), line.size()) < 0) _exit(99);
}

void print() {
  say("rank " + variable("RANK") + "/" + variable("WORLD_SIZE") + " local " +
      variable("LOCAL_RANK") + "/" + variable("LOCAL_WORLD_SIZE") + " group " +
      variable("GROUP_RANK") + "/" + variable("GROUP_WORLD_SIZE") + " attempt " + attempt() +
      " store " + variable("TORCHELASTIC_USE_AGENT_STORE"));
}

void write_environment(const std::string& folder) {
  std::ofstream file(folder + "/" + variable("RANK"), std::ios::binary);
  for (char** entry = environ; *entry != nullptr; ++entry) file << *entry << '\0';
}

void count_in_store() {
  const auto port = static_cast<std::uint16_t>(std::stoi(variable("MASTER_PORT")));
  const auto store =
      shampoo::connect_store(variable("MASTER_ADDR"), port, std::chrono::seconds(20),
                             shampoo::StoreProtocol::automatic, variable("SHAMPOO_JOB_SECRET"));
  say("counter " + std::to_string(store->add("counter", 1)));
}

/// Until a signal comes, whichever are blocked, or for so long; null: without end.
void sleep_for(const timespec* time) {
  sigset_t none;
  sigemptyset(&none);
  ppoll(nullptr, 0, time, &none);
}

[[noreturn]] void sleep_for_ever() {
  for (;;) sleep_for(nullptr);
}

void make_child() {
  if (fork() != 0) return;
  std::signal(SIGTERM, SIG_IGN);
  sleep_for_ever();
}

[[noreturn]] void lose_first_thread() {
  std::thread(sleep_for_ever).detach();
  pthread_exit(nullptr);
}

void note(int signal) {
  const std::array<char, 3> text{'S', static_cast<char>('A' + signal), '\n'};
  if (write(STDOUT_FILENO, text.data(), text.size()) < 0) _exit(99);
}

/// Until then it is blocked, so that none is lost that comes just before a sleep, which it ends.
void note_in_sleep(int signal) {
  std::signal(signal, note);
  sigset_t noted;
  sigemptyset(&noted);
  sigaddset(&noted, signal);
  sigprocmask(SIG_BLOCK, &noted, nullptr);
}

void sleep_for_milliseconds(int count) {
  const timespec time{count / 1000, count % 1000 * 1'000'000L};
  sleep_for(&time);
}

void act(std::string_view word, const std::string& value) {
  if (word == "print") print();
  if (word == "environment") write_environment(value);
  if (word == "store") count_in_store();
  if (word == "ignore") std::signal(std::stoi(value), SIG_IGN);
  if (word == "note") note_in_sleep(std::stoi(value));
  if (word == "child") make_child();
  if (word == "leaderless") lose_first_thread();
  if (word == "error")
    std::ofstream(variable("TORCHELASTIC_ERROR_FILE"))
        << R"({"message": ")" << value << R"(", "timestamp": 1})";
  if (word == "report") std::ofstream(variable("TORCHELASTIC_ERROR_FILE")) << value;
  if (word == "raise") raise(std::stoi(value));
  if (word == "exit") std::exit(std::stoi(value));
  if (word == "sleep") sleep_for_milliseconds(std::stoi(value));
  if (word == "forever") sleep_for_ever();
}

}  // namespace

int main(int argc, char** argv) {
  bool counts = true;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const std::size_t equals = argument.find('=');
    const std::string word = argument.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : argument.substr(equals + 1);
    if (word == "attempt") {
      counts = counts && attempt() == value;
    } else if (word == "rank") {
      counts = counts && variable("RANK") == value;
    } else {
      if (counts) act(word, value);
      counts = true;
    }
  }
  return 0;
}
