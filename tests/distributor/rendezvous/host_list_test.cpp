// SPDX-License-Identifier: Apache-2.0
#include "distributor/rendezvous/host_list.h"

#include <gtest/gtest.h>

#include <random>
#include <stdexcept>

namespace shampoo::rendezvous {
namespace {

TEST(HostList, NameWithoutBracketsStands) {
  EXPECT_EQ(first_host("login"), "login");
  EXPECT_EQ(first_host("a,b-1.example.org,c_2"), "a");
  EXPECT_EQ(first_host("b-1.example.org,a"), "b-1.example.org");
  EXPECT_EQ(first_host("7"), "7");
}

TEST(HostList, FirstNumberOfTheFirstRangeIsTaken) {
  EXPECT_EQ(first_host("node[001-004,7],gpu-[1-2]x,login"), "node001");
  EXPECT_EQ(first_host("n[5,1,3-4]"), "n5");
  EXPECT_EQ(first_host("n[3-3]"), "n3");
  EXPECT_EQ(first_host("gpu-[1-2]x,login"), "gpu-1x");
}

TEST(HostList, LeadingZerosStay) {
  EXPECT_EQ(first_host("n[08-11]"), "n08");
  EXPECT_EQ(first_host("n[8-11]"), "n8");
  EXPECT_EQ(first_host("n[0-1]"), "n0");
  EXPECT_EQ(first_host("n[000]"), "n000");
}

TEST(HostList, NameMayHaveSeveralBrackets) {
  EXPECT_EQ(first_host("r[1-2]n[01-02]-ib"), "r1n01-ib");
  EXPECT_EQ(first_host("[1-2][5,7]"), "15");
  EXPECT_EQ(first_host("x[1]y[2]z[3]"), "x1y2z3");
}

TEST(HostList, GiantRangesNeedNoRoom) {
  EXPECT_EQ(first_host("n[0-999999999999999999]"), "n0");
  EXPECT_EQ(first_host("n[000000000000000001-999999999999999999]m[1-999999999999999999],b"),
            "n000000000000000001m1");
}

TEST(HostList, MalformedListsAreRefused) {
  for (const std::string list : {"",
                                 ",",
                                 "a,",
                                 ",a",
                                 "a,,b",
                                 "a[",
                                 "a]",
                                 "a[]",
                                 "a[1",
                                 "a[1-",
                                 "a[1-]",
                                 "a[-1]",
                                 "a[1,]",
                                 "a[,1]",
                                 "a[1]]",
                                 "a[[1]]",
                                 "a[1[2]]",
                                 "a[b]",
                                 "a[1-2-3]",
                                 "a[3-1]",
                                 "a[1-2],",
                                 "a[1 -2]",
                                 "a b",
                                 "a\n",
                                 "a[0x1]",
                                 "a[+1]",
                                 "a[1.5]",
                                 "a[1234567890123456789]",
                                 "a[1-2]:80",
                                 "a/b",
                                 "a[1-18446744073709551616]",
                                 "\xff"}) {
    EXPECT_THROW(first_host(list), std::invalid_argument) << list;
  }
}

TEST(HostList, MessageQuotesTheListAndThePlace) {
  try {
    first_host("node[3-1]");
    FAIL() << "was taken";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(),
                 "host list \"node[3-1]\": expected an upper end not below the lower one at "
                 "character 9");
  }
}

TEST(HostList, RandomTextIsTakenOrRefusedButNothingElse) {
  constexpr std::string_view alphabet = "ab01289[],-.[]";
  std::mt19937 random(11);
  int taken = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string list(random() % 14, ' ');
    for (char& c : list) c = alphabet[random() % alphabet.size()];
    try {
      const std::string host = first_host(list);
      EXPECT_FALSE(host.empty()) << list;
      EXPECT_EQ(host.find_first_of("[],"), std::string::npos) << list;
      EXPECT_TRUE(list.front() == '[' || host.front() == list.front()) << list;
      ++taken;
    } catch (const std::invalid_argument&) {
    }
  }
  EXPECT_GT(taken, 0);
}

}  // namespace
}  // namespace shampoo::rendezvous
