// SPDX-License-Identifier: Apache-2.0
// File systems that answer as some do: without leave, late, twice, or that they know no such call.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <system_error>

#include "shampoo/checkpoint.h"
#include "tests/shampoo/checkpoint/checkpoint_faults/system_calls.h"
#include "tests/shampoo/checkpoint/checkpoint_job.h"

namespace shampoo::test {
namespace {

using checkpoint::test::CallFault;
using checkpoint::test::calls_of;
using checkpoint::test::CallWatch;
using checkpoint::test::Fate;

/// Lets calls that begin and end like this fail, as often as told.
CallWatch::Decide failing(const std::string& operation, const std::string& end, CallFault fault,
                          std::shared_ptr<std::atomic<int>> times = nullptr) {
  return [=](std::size_t, const std::string& call) {
    const bool fails = call.starts_with(operation + " ") && call.ends_with(end);
    return fails && (!times || (*times)-- > 0) ? fault : CallFault{};
  };
}

/// The same of opening a file again.
CallWatch::Decide failing_again(const std::string& file, CallFault fault,
                                std::shared_ptr<std::atomic<int>> times = nullptr) {
  return [again = failing("open", file, fault, times),
          first = failing("open", file, fault, std::make_shared<std::atomic<int>>(1))](
             std::size_t place, const std::string& call) {
    return first(place, call).fate == Fate::happens ? again(place, call) : CallFault{};
  };
}

/// What a child that runs `body` ends with: 0 if it threw nothing.
int in_child(const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      body();
    } catch (const std::system_error& error) {
      ::_exit(error.code().value());
    } catch (...) {
      ::_exit(255);
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

class FileSystems : public testing::Test {
 protected:
  std::filesystem::path save_alone(std::int64_t step, bool replace = false) {
    Alone alone;
    return save(*alone.job.optimizer, root_, user_state_of(alone.job),
                {.step = step, .replace = replace});
  }
  /// By two ranks; returns the file of rank 1, which rank 0 opens only to look for a checkpoint.
  std::filesystem::path save_by_two(std::int64_t step) {
    run_ranks(2, [&](Communicator& communicator) {
      Job<float> job(communicator, small, {});
      save(*job.optimizer, root_, user_state_of(job), {.step = step});
    });
    return root_ / ("step-" + std::to_string(step)) / "shard-00001-of-00002.safetensors";
  }
  std::int64_t latest() {
    Alone alone;
    return load(*alone.job.optimizer, root_).step;
  }

  TemporaryFolder folder_;
  const std::filesystem::path root_ = folder_.path() / "root";
};

TEST_F(FileSystems, ThatRefuseToReadMakeNoCheckpointBroken) {
  save_alone(1);
  save_alone(2);
  for (const int error : {EACCES, ESTALE, EIO, EMFILE, ENOMEM})
    for (const char* file : {"step-2/manifest.json", "step-2/shard-00000-of-00001.safetensors"}) {
      const CallWatch watch(failing("open", file, {Fate::fails, error}));
      const auto code_of = [](const auto& action) {
        try {
          action();
        } catch (const std::system_error& thrown) {
          return thrown.code().value();
        }
        return 0;
      };
      EXPECT_EQ(code_of([&] { list_checkpoints(root_); }), error) << file;
      EXPECT_EQ(code_of([&] { (void)latest_checkpoint(root_); }), error) << file;
      EXPECT_EQ(code_of([&] { prune_checkpoints(root_, 1); }), error) << file;
      EXPECT_EQ(code_of([&] { save_alone(2); }), error) << file << ": nothing is replaced";
      run_ranks(2, [&](Communicator& communicator) {
        Job<float> job(communicator, small, {});
        job.train(0, 2);
        EXPECT_EQ(code_of([&] { (void)resume(*job.optimizer, root_); }), error) << file;
        EXPECT_EQ(job.optimizer->steps("tensor0"), 2);
      });
    }
  EXPECT_EQ(latest(), 2);
  const CallWatch watch(failing("open", "step-2/manifest.json", {Fate::fails, ENOENT}));
  EXPECT_EQ(latest(), 1) << "that is not there";
}

TEST_F(FileSystems, ThatRefuseOneRankToReadLeaveOpenWhatAnotherFindsBroken) {
  save_alone(1);
  const auto refused = save_by_two(2);
  const auto broken = refused.parent_path() / "shard-00000-of-00002.safetensors";
  const auto last = static_cast<std::streamoff>(std::filesystem::file_size(broken)) - 1;
  {
    std::fstream file(broken, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(last);
    const int byte = file.get();
    file.seekp(last);
    file.put(static_cast<char>(byte ^ 1));
  }
  for (const bool refuses : {true, false}) {
    const CallWatch watch(
        failing_again(refused.string(), {refuses ? Fate::fails : Fate::happens, EIO}));
    run_ranks(2, [&](Communicator& communicator) {
      Job<float> job(communicator, small, {});
      if (refuses) {
        const std::string message =
            error_of<std::system_error>([&] { (void)resume(*job.optimizer, root_); });
        expect_says(message, {"rank 0: ", "checksum", "rank 1: ", "Input/output error"});
      } else {
        EXPECT_EQ(resume(*job.optimizer, root_)->step, 1);
      }
    });
  }
}

TEST_F(FileSystems, WithoutFsyncForFoldersKeepCheckpoints) {
  for (const int error : {EINVAL, ENOTSUP}) {
    const CallWatch watch([&](std::size_t, const std::string& call) {
      const bool of_folder =
          call.starts_with("fsync ") && !call.ends_with(".safetensors") && !call.ends_with(".json");
      return of_folder ? CallFault{Fate::fails, error} : CallFault{};
    });
    EXPECT_EQ(save_alone(error), root_ / ("step-" + std::to_string(error)));
  }
  const CallWatch watch(failing("fsync", "manifest.json", {Fate::fails, EINVAL}));
  EXPECT_THROW(save_alone(1), std::system_error) << "a file has to have it";
}

TEST_F(FileSystems, ThatApplyACallAndAnswerWithAnErrorAreBelieved) {
  std::int64_t step = 0;
  for (const int error : {ENOENT, EIO, EEXIST}) {
    if (error != EEXIST) {
      const CallWatch watch(failing("rename_to_new", "", {Fate::fails_though_done, error}));
      EXPECT_NO_THROW(save_alone(++step)) << error;
    }
    if (error == EEXIST) {
      const CallWatch watch(failing("mkdir", "", {Fate::fails_though_done, error}));
      EXPECT_NO_THROW(save_alone(++step));
    }
  }
  EXPECT_EQ(list_checkpoints(root_).complete.size(), 3U);
  EXPECT_TRUE(list_checkpoints(root_).stale.empty());
}

TEST_F(FileSystems, WithoutFlagsOfRenameSaveAndReplaceAllTheSame) {
  const CallWatch watch([](std::size_t, const std::string& call) {
    const bool flagged = call.starts_with("rename_to_new ") || call.starts_with("exchange ");
    return flagged ? CallFault{Fate::fails, EINVAL} : CallFault{};
  });
  save_alone(1);
  EXPECT_THROW(save_alone(1), std::invalid_argument);
  save_alone(2);
  const std::string before = list_checkpoints(root_).complete.front().save;
  EXPECT_EQ(save_alone(1, true), root_ / "step-1");
  const CheckpointListing listing = list_checkpoints(root_);
  ASSERT_EQ(listing.complete.size(), 2U);
  EXPECT_EQ(listing.complete.back().step, 1);
  EXPECT_NE(listing.complete.back().save, before);
  EXPECT_TRUE(listing.stale.empty());
}

TEST_F(FileSystems, ThatShowAFileLateAreWaitedForByOtherRanks) {
  const auto file = save_by_two(1);
  for (const int error : {ENOENT, ESTALE}) {
    const auto times = std::make_shared<std::atomic<int>>(3);
    const CallWatch watch(failing_again(file.string(), {Fate::fails, error}, times));
    run_ranks(2, [&](Communicator& communicator) {
      Job<float> job(communicator, small, {});
      EXPECT_EQ(resume(*job.optimizer, root_)->step, 1) << error;
    });
    EXPECT_LE(*times, 0) << "it was late";
  }
}

TEST_F(FileSystems, WithALimitOfTheSizeOfFilesDoNotEndTheProcess) {
  save_alone(1);
  EXPECT_EQ(in_child([&] {
              std::signal(SIGXFSZ, SIG_DFL);
              const rlimit limit{2000, 2000};
              ::setrlimit(RLIMIT_FSIZE, &limit);
              save_alone(2);
            }),
            EFBIG);
  EXPECT_EQ(latest(), 1);
}

TEST_F(FileSystems, AreNamedByPathsThatDoNotDependOnTheWorkingDirectory) {
  EXPECT_EQ(in_child([&] {
              std::filesystem::current_path(folder_.path());
              Alone alone;
              AsyncCheckpointer checkpointer(*alone.job.optimizer);
              checkpointer.start("root", {}, {.step = 5});
              std::filesystem::current_path("/");
              if (checkpointer.wait() != root_ / "step-5") throw std::runtime_error("another");
            }),
            0);
  EXPECT_EQ(latest(), 5);
}

TEST_F(FileSystems, AreAskedForOneWholeManifestOnly) {
  for (std::int64_t step = 1; step <= 9; ++step) save_alone(step);
  std::int64_t opened = 0;
  for (const std::string& call : calls_of([&] { (void)latest_checkpoint(root_); }))
    opened += call.starts_with("open ") ? 1 : 0;
  EXPECT_EQ(opened, 9 + 1 + 1) << "heads, one manifest, its shard";
}

TEST_F(FileSystems, SyncTheNameOfADirectoryThatWasThere) {
  std::filesystem::create_directory(root_);
  const std::vector<std::string> calls = calls_of([&] { save_alone(1); });
  EXPECT_NE(std::ranges::find(calls, "fsync " + folder_.path().string()), calls.end());
}

}  // namespace
}  // namespace shampoo::test
