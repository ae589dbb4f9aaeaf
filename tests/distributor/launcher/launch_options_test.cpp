// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/command_line/launch_options.h"

#include <gtest/gtest.h>

#include <csignal>

#include "distributor/launcher/command_line/parse_values.h"
#include "launch_options_of.h"

namespace shampoo::launcher::test {
namespace {

using std::chrono::milliseconds;

TEST(LaunchOptions, OfABareCallAreThoseOfTorchrun) {
  const LaunchOptions options = launch_options_of({"program"});

  EXPECT_EQ(options.rendezvous, Rendezvous::one_node);
  EXPECT_EQ(options.endpoint_host, "localhost");
  EXPECT_EQ(options.endpoint_port, 0);
  EXPECT_EQ(options.run_id.size(), 32U);
  EXPECT_NE(options.run_id, launch_options_of({"program"}).run_id);
  EXPECT_EQ(options.workers, 1);
  EXPECT_EQ(options.nodes, 1);
  EXPECT_EQ(options.max_restarts, 0);
  EXPECT_EQ(options.role, "default");
  EXPECT_EQ(options.runner, Runner::automatic);
  EXPECT_EQ(options.monitor_interval, milliseconds(100));
  EXPECT_EQ(options.shutdown_timeout, milliseconds(30'000));
  EXPECT_EQ(options.signals, (std::vector<int>{SIGTERM, SIGINT, SIGHUP, SIGQUIT}));
  EXPECT_FALSE(options.log_folder || options.line_prefix || options.is_host);
  EXPECT_FALSE(options.worker_exit_code);
  EXPECT_TRUE(options.warnings.empty());
}

TEST(LaunchOptions, LeaveProgramAndArgumentsAsTheyAre) {
  const auto options = launch_options_of({"-r1", "program", "--tee", "[a,b]", "", "--", "${x}"});

  EXPECT_EQ(options.program, "program");
  EXPECT_EQ(options.arguments, (std::vector<std::string>{"--tee", "[a,b]", "", "--", "${x}"}));
  EXPECT_EQ(options.tee.all, Streams{});
}

TEST(LaunchOptions, TakeTheLastOfTwoValuesAndPreferThemToVariables) {
  const Environment environment{{"PET_NPROC_PER_NODE", "5"}, {"PET_ROLE", "r"}};

  EXPECT_EQ(launch_options_of({"p"}, environment).workers, 5);
  EXPECT_EQ(launch_options_of({"p"}, environment).role, "r");
  EXPECT_EQ(
      launch_options_of({"--nproc-per-node=2", "--nproc-per-node=3", "p"}, environment).workers, 3);
}

TEST(LaunchOptions, ReadTogglesFromVariablesAsNumbers) {
  EXPECT_EQ(launch_options_of({"p"}, {{"PET_NO_PYTHON", "1"}}).runner, Runner::direct);
  EXPECT_EQ(launch_options_of({"p"}, {{"PET_NO_PYTHON", "0"}}).runner, Runner::automatic);
  EXPECT_EQ(usage_error_of({"p"}, {{"PET_STANDALONE", "maybe"}}),
            "PET_STANDALONE must be 0 or 1, not 'maybe'");
  EXPECT_EQ(usage_error_of({"--module=maybe", "p"}), "--module must be 0 or 1, not 'maybe'");
}

TEST(LaunchOptions, OfFixedNodesHaveTheStoreAtTheMaster) {
  const auto options = launch_options_of(
      {"--nnodes=2", "--node-rank=1", "--master-addr=[fe80::1]", "--master-port=1234", "p"});

  EXPECT_EQ(options.rendezvous, Rendezvous::fixed);
  EXPECT_EQ(options.node_rank, 1);
  EXPECT_EQ(options.endpoint_host, "fe80::1");
  EXPECT_EQ(options.endpoint_port, 1234);
  EXPECT_EQ(options.run_id, "none");
}

TEST(LaunchOptions, OfOneNodeAreFixedWhereAPortOrAnEndpointIsGiven) {
  EXPECT_EQ(launch_options_of({"--master-port=29500", "p"}).rendezvous, Rendezvous::fixed);
  const auto options = launch_options_of({"--rdzv-endpoint=here:5", "p"});
  EXPECT_EQ(options.rendezvous, Rendezvous::fixed);
  EXPECT_EQ(options.endpoint_host, "here");
  EXPECT_EQ(options.endpoint_port, 5);
  EXPECT_EQ(launch_options_of({"--nnodes=2", "p"}).endpoint_port, 29'500);
}

TEST(LaunchOptions, OfDynamicNodesHaveAnEndpoint) {
  const auto options = launch_options_of(
      {"--nnodes=4:4", "--rdzv-backend=c10d", "--rdzv-id=job", "--rdzv-endpoint=[::1]:7", "p"});
  EXPECT_EQ(options.rendezvous, Rendezvous::dynamic);
  EXPECT_EQ(options.nodes, 4);
  EXPECT_EQ(options.endpoint_host, "::1");
  EXPECT_EQ(options.endpoint_port, 7);
  EXPECT_EQ(options.run_id, "job");
  const auto plain = launch_options_of({"--nnodes=2", "--rdzv-backend=c10d", "p"});
  EXPECT_EQ(plain.endpoint_host, "localhost");
  EXPECT_EQ(plain.endpoint_port, 29'400);
  EXPECT_EQ(plain.warnings,
            (std::vector<std::string>{"without --rdzv-endpoint the nodes meet at localhost:29400, "
                                      "where other hosts cannot reach them"}));
  EXPECT_TRUE(options.warnings.empty());
}

TEST(LaunchOptions, OfStandaloneKeepAGivenRunId) {
  const auto options = launch_options_of(
      {"--standalone", "--rdzv-id=job", "--rdzv-backend=c10d", "--rdzv-endpoint=x:1", "p"});

  EXPECT_EQ(options.rendezvous, Rendezvous::one_node);
  EXPECT_EQ(options.run_id, "job");
  EXPECT_EQ(options.warnings.size(), 2U);
  EXPECT_TRUE(launch_options_of({"--rdzv-endpoint", "", "p"}).warnings.empty());
}

TEST(LaunchOptions, WarnOfServicesThatThisLauncherLacks) {
  EXPECT_TRUE(launch_options_of({"p"}, {{"TORCHELASTIC_ENABLE_FILE_TIMER", "0"}}).warnings.empty());
  const auto options = launch_options_of(
      {"p"}, {{"TORCHELASTIC_ENABLE_FILE_TIMER", "1"}, {"TORCHELASTIC_HEALTH_CHECK_PORT", "9000"}});
  EXPECT_EQ(options.warnings.size(), 2U);
}

TEST(LaunchOptions, ReadTheMapOfRendezvousSettings) {
  const auto options = launch_options_of(
      {"--rdzv-conf", "join_timeout=7, last_call_timeout=1,is_host=0,keep_alive_max_attempt=9",
       "p"});
  EXPECT_EQ(options.times.join, milliseconds(7000));
  EXPECT_EQ(options.warnings.size(), 1U);
  EXPECT_EQ(options.times.heartbeats_missed, 9);
  EXPECT_EQ(options.is_host, false);
  EXPECT_EQ(usage_error_of({"--rdzv-conf=join=1", "p"}),
            "--rdzv-conf: there is no key join; see --help");
  EXPECT_EQ(usage_error_of({"--rdzv-conf=store_type=file", "p"}),
            "--rdzv-conf: store_type must be tcp");
  EXPECT_NE(usage_error_of({"--rdzv-conf=keep_alive_interval=0", "p"}), "");
}

TEST(LaunchOptions, RefuseCombinationsThatCannotWork) {
  EXPECT_NE(usage_error_of({"--nnodes=2", "--standalone", "p"}), "");
  EXPECT_NE(usage_error_of({"--nnodes=2:1", "--rdzv-backend=c10d", "p"}), "");
  EXPECT_NE(usage_error_of({"--nnodes=2", "--node-rank=2", "p"}), "");
  EXPECT_NE(usage_error_of({"--rdzv-endpoint=host", "p"}), "");
  EXPECT_NE(usage_error_of({"--nnodes=2", "--master-port=0", "p"}), "");
  EXPECT_NE(usage_error_of({"-m", "--no-python", "p"}), "");
  EXPECT_NE(usage_error_of({"--exit-code=both", "p"}), "");
  EXPECT_NE(usage_error_of({"--nproc-per-node=0", "p"}), "");
  EXPECT_NE(usage_error_of({"--rdzv-id", "", "p"}), "");
  EXPECT_NE(usage_error_of({"--signals-to-handle=SIGSEGV", "p"}), "");
  EXPECT_NE(usage_error_of({}), "");
}

TEST(LaunchOptions, RefuseARangeOfNodesAndNameTorchrun) {
  const std::string error = usage_error_of({"--nnodes", "1:2", "--rdzv-backend=c10d", "p"});
  EXPECT_EQ(error,
            "--nnodes=1:2 is not supported: the number of nodes is fixed; for a range start the "
            "trainer with "
            "torchrun, under which it runs as well");
  EXPECT_EQ(usage_error_of({"p"}, {{"PET_NNODES", "1:2"}}).substr(0, 28),
            "PET_NNODES=1:2 is not suppor");
}

TEST(LaunchOptions, ReadShortFlagsAloneJoinedAndTogether) {
  const auto options = launch_options_of({"-mr", "3", "-t1", "--local-ranks-filter", "0", "p"});

  EXPECT_EQ(options.runner, Runner::module);
  EXPECT_EQ(options.redirects.all, (Streams{true, true}));
  EXPECT_EQ(options.tee.all, (Streams{true, false}));
  EXPECT_EQ(options.console_local_ranks, (std::set<int>{0}));
}

TEST(LaunchOptions, ReadShortFlagsWithAnEqualsSignAsTorchrun) {
  const auto options = launch_options_of({"-t=1", "-r=0:3", "p", "-t=2"});

  EXPECT_EQ(options.tee.all, (Streams{true, false}));
  EXPECT_EQ(options.redirects.of(0), (Streams{true, true}));
  EXPECT_EQ(options.arguments, (std::vector<std::string>{"-t=2"}));
}

TEST(LaunchOptions, EndWithTheProgramOrTwoDashes) {
  const auto options = launch_options_of({"--role=a", "--", "-p", "--", "x"});
  EXPECT_EQ(options.role, "a");
  EXPECT_EQ(options.program, "-p");
  EXPECT_EQ(options.arguments, (std::vector<std::string>{"--", "x"}));
}

TEST(LaunchOptions, NameWhatIsNotUnderstood) {
  EXPECT_EQ(usage_error_of({"--bogus=1", "p"}), "there is no flag --bogus=1; see --help");
  EXPECT_EQ(usage_error_of({"-x", "p"}), "there is no flag -x; see --help");
  EXPECT_EQ(usage_error_of({"--role=", "p", "q"}), "--role= lacks a value");
  EXPECT_EQ(usage_error_of({"--tee"}), "--tee lacks a value");
  EXPECT_EQ(usage_error_of({"--role", "a"}),
            "the program is missing: shampoorun [FLAGS] PROGRAM [ARGUMENTS]");
}

TEST(LaunchOptions, ReadStreamsByLocalRank) {
  const auto options = launch_options_of({"-r", "0:1,12:3", "-t2", "p"});

  EXPECT_EQ(options.redirects.of(0), (Streams{true, false}));
  EXPECT_EQ(options.redirects.of(12), (Streams{true, true}));
  EXPECT_EQ(options.redirects.of(1), (Streams{false, false}));
  EXPECT_EQ(options.tee.of(5), (Streams{false, true}));
}

TEST(LaunchOptions, ReadTheShutdownTimeoutFromFlagThenVariables) {
  const Environment older{{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "4"}};
  const Environment both{{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "4"}, {"PET_SHUTDOWN_TIMEOUT", "5"}};

  EXPECT_EQ(launch_options_of({"p"}, older).shutdown_timeout, milliseconds(4000));
  EXPECT_EQ(launch_options_of({"p"}, both).shutdown_timeout, milliseconds(5000));
  EXPECT_EQ(launch_options_of({"--shutdown-timeout=6", "p"}, both).shutdown_timeout,
            milliseconds(6000));
}

TEST(LaunchOptions, CountProcessorsAndGpus) {
  EXPECT_EQ(launch_options_of({"--nproc-per-node=cpu", "p"}).workers, count_processors());
  const Environment three{{"CUDA_VISIBLE_DEVICES", "0,GPU-ab,4"}};
  EXPECT_EQ(launch_options_of({"--nproc-per-node=gpu", "p"}, three).workers, 3);
  EXPECT_EQ(launch_options_of({"--nproc-per-node=auto", "p"}, three).workers, 3);
  const Environment none{{"CUDA_VISIBLE_DEVICES", ""}};
  EXPECT_EQ(launch_options_of({"--nproc-per-node=auto", "p"}, none).workers, count_processors());
  EXPECT_EQ(usage_error_of({"--nproc-per-node=gpu", "p"}, none),
            "--nproc-per-node=gpu, but this node shows no GPU");
}

TEST(LaunchOptions, KeepTextInBracketsWhole) {
  EXPECT_EQ(launch_options_of({"--log-line-prefix-template=[$rank,x]", "p"}).line_prefix,
            "[$rank,x]");
  EXPECT_EQ(launch_options_of({"p"}, {{"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "x"}}).line_prefix,
            "x");
}

TEST(LaunchOptions, AreNotNeededForNotices) {
  EXPECT_EQ(notice_of({"--version"}).substr(0, 11), "shampoorun ");
  EXPECT_NE(notice_of({"-h"}).find("Usage: shampoorun"), std::string::npos);
}

}  // namespace
}  // namespace shampoo::launcher::test
