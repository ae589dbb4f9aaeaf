// SPDX-License-Identifier: Apache-2.0
#include "distributor/rendezvous/own_address.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "distributor/communicator.h"
#include "support/thrown.h"
#include "tests/distributor/outward_address.h"

namespace shampoo::rendezvous {
namespace {

ProcessInfo process(std::vector<std::string> addresses) {
  return {.host = "node", .addresses = std::move(addresses)};
}

TEST(OwnAddress, IsALoopbackOneWhereAllRanksAreOnTheHostOfTheStore) {
  const std::vector<std::string> both{"::1", "127.0.0.1"};
  const Network network = choose_network({process(both), process(both)});
  EXPECT_FALSE(network.is_ipv6);
  EXPECT_EQ(network.landmark, "");
  EXPECT_EQ(own_address(both, network), "127.0.0.1");
}

TEST(OwnAddress, OnTheHostOfTheStoreIsThatOnTheRouteToAnotherHost) {
  const std::string here = test::outward_address();
  if (here.empty()) GTEST_SKIP() << "no address but the loopback's here";
  const Network network = choose_network({process({"127.0.1.1"}), process({here})});
  EXPECT_EQ(network.landmark, here);
  EXPECT_EQ(own_address({"127.0.1.1"}, network), here);
}

TEST(OwnAddress, HasAFamilyThatAllRanksHave) {
  const std::vector<std::string> both{"fd00::7", "10.0.0.7"};
  EXPECT_FALSE(choose_network({process(both), process({"10.0.0.8"})}).is_ipv6);
  const Network six = choose_network({process({"::1"}), process(both), process({"fd00::8"})});
  EXPECT_TRUE(six.is_ipv6);
  EXPECT_EQ(six.landmark, "fd00::7");
  EXPECT_EQ(own_address(both, six), "fd00::7");
  EXPECT_EQ(own_address(both, choose_network({process(both), process(both)})), "10.0.0.7");
  try {
    choose_network({process(both), process({"10.0.0.8"}), process({"fd00::9"})});
    FAIL() << "no common family";
  } catch (const CommunicationError& error) {
    EXPECT_EQ(
        std::string(error.what()).find("rank 2 on node reaches the store by IPv6 only, rank 1"), 0U)
        << error.what();
  }
}

TEST(OwnAddress, MayBeChosenByInterfaceNameOrAddress) {
  EXPECT_EQ(chosen_address("lo", "own"), "127.0.0.1");
  EXPECT_EQ(chosen_address("127.0.0.5", "own"), "127.0.0.5");
  for (const char* other : {"192.0.2.77", "no.such.host.invalid", "eth77"})
    EXPECT_EQ(test::error_of<std::invalid_argument>([&] { chosen_address(other, "own"); }),
              "join: own: must be an address, a name or a network interface of this host, got \"" +
                  std::string(other) + "\"");
}

TEST(OwnAddress, TowardsAHostIsThatOnTheRoute) {
  EXPECT_EQ(addresses_towards("127.0.0.1", 1), std::vector<std::string>{"127.0.0.1"});
  EXPECT_THROW(addresses_towards("no.such.host.invalid", 1), CommunicationError);
}

}  // namespace
}  // namespace shampoo::rendezvous
