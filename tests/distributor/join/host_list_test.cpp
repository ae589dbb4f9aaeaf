// SPDX-License-Identifier: Apache-2.0
#include "distributor/join/host_list.h"

#include <gtest/gtest.h>

#include <random>
#include <stdexcept>

namespace shampoo::joining {
namespace {

using Hosts = std::vector<std::string>;

TEST(HostList, NamesWithoutBracketsStand) {
  EXPECT_EQ(expand_host_list("login"), Hosts{"login"});
  EXPECT_EQ(expand_host_list("a,b-1.example.org,c_2"), (Hosts{"a", "b-1.example.org", "c_2"}));
  EXPECT_EQ(expand_host_list("7"), Hosts{"7"});
}

TEST(HostList, RangesAreExpandedInTheirOrder) {
  EXPECT_EQ(
      expand_host_list("node[001-004,7],gpu-[1-2]x,login"),
      (Hosts{"node001", "node002", "node003", "node004", "node7", "gpu-1x", "gpu-2x", "login"}));
  EXPECT_EQ(expand_host_list("n[5,1,3-4]"), (Hosts{"n5", "n1", "n3", "n4"}));
  EXPECT_EQ(expand_host_list("n[3-3]"), Hosts{"n3"});
}

TEST(HostList, LeadingZerosFixTheWidth) {
  EXPECT_EQ(expand_host_list("n[08-11]"), (Hosts{"n08", "n09", "n10", "n11"}));
  EXPECT_EQ(expand_host_list("n[8-11]"), (Hosts{"n8", "n9", "n10", "n11"}));
  EXPECT_EQ(expand_host_list("n[98-101]"), (Hosts{"n98", "n99", "n100", "n101"}));
  EXPECT_EQ(expand_host_list("n[0-1]"), (Hosts{"n0", "n1"}));
  EXPECT_EQ(expand_host_list("n[000]"), Hosts{"n000"});
}

TEST(HostList, LastOfSeveralBracketsVariesFastest) {
  EXPECT_EQ(expand_host_list("r[1-2]n[01-02]-ib"),
            (Hosts{"r1n01-ib", "r1n02-ib", "r2n01-ib", "r2n02-ib"}));
  EXPECT_EQ(expand_host_list("[1-2][5,7]"), (Hosts{"15", "17", "25", "27"}));
  EXPECT_EQ(expand_host_list("x[1]y[2]z[3]").front(), "x1y2z3");
}

TEST(HostList, FirstHostIsTheFirstOfAll) {
  for (const std::string list :
       {"login", "node[001-004,7],gpu", "r[3-9]n[07-09]x,b", "n[12,1-3]", "[5-6]"}) {
    EXPECT_EQ(first_host(list), expand_host_list(list).front()) << list;
  }
}

TEST(HostList, FirstHostNeedsNoRoomForGiantRanges) {
  EXPECT_EQ(first_host("n[0-999999999999999999]"), "n0");
  EXPECT_EQ(first_host("n[000000000000000001-999999999999999999]m[1-999999999999999999],b"),
            "n000000000000000001m1");
}

TEST(HostList, MoreHostsThanAllowedAreRefused) {
  EXPECT_EQ(expand_host_list("n[1-100]", 100).size(), 100);
  for (const std::string list :
       {"n[1-101]", "n[1-100],m", "n[1-11]m[1-10]", "n[0-999999999999999999]",
        "a[0-999999999999999999]b[0-999999999999999999]c[0-999999999999999999]", "n[1-60,1-60]"}) {
    EXPECT_THROW(expand_host_list(list, 100), std::invalid_argument) << list;
  }
  EXPECT_THROW(expand_host_list("n[1-65537]"), std::invalid_argument);
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
    EXPECT_THROW(expand_host_list(list), std::invalid_argument) << list;
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
      const Hosts hosts = expand_host_list(list, 1000);
      ASSERT_FALSE(hosts.empty()) << list;
      EXPECT_EQ(hosts.front(), first_host(list)) << list;
      ++taken;
    } catch (const std::invalid_argument&) {
    }
  }
  EXPECT_GT(taken, 0);
}

}  // namespace
}  // namespace shampoo::joining
