// SPDX-License-Identifier: Apache-2.0
#include "distributor/store/request_reader.h"

#include <gtest/gtest.h>

#include "tests/distributor/store/raw_client.h"

namespace shampoo::test {
namespace {

using State = store::RequestReader::State;

State read(std::string_view notation) {
  return store::RequestReader().read(bytes(notation), StoreProtocol::torch_2);
}

TEST(RequestReader, IsCompleteWithTheLastByteOnly) {
  for (const char* notation :
       {"00 CE F7 85 3C", "01 L(2) '/x' L(3) 'abc'", "02 L(2) '/c' L(0) L(1) 'v'",
        "04 L(2) '/n' L(-3)", "05 L(2) L(1) 'a' L(0)", "07",
        "0B L(2) L(1) 'a' L(0) L(1) 'b' L(2) 'vw'", "0D 01 02 03 04"}) {
    const std::string request = bytes(notation);
    store::RequestReader reader;
    for (std::size_t size = 0; size < request.size(); ++size)
      ASSERT_EQ(reader.read(std::string_view(request).substr(0, size), StoreProtocol::torch_2),
                State::incomplete)
          << notation << ", " << size << " bytes";
    ASSERT_EQ(reader.read(request + "more", StoreProtocol::torch_2), State::complete) << notation;
    EXPECT_EQ(reader.end(), request.size());
  }
}

TEST(RequestReader, FindsTextsAndNumbers) {
  const std::string request = bytes("04 L(2) '/n' L(-3)");
  store::RequestReader reader;
  ASSERT_EQ(reader.read(request, StoreProtocol::torch_2), State::complete);
  EXPECT_EQ(reader.request(), store::Request::add);
  EXPECT_EQ(reader.text(request, 0), "/n");
  EXPECT_EQ(reader.number(request, 1), -3);
}

TEST(RequestReader, AllowsTheLimitsThemselves) {
  EXPECT_EQ(read("03 L(8192)"), State::incomplete);
  EXPECT_EQ(read("01 L(0) L(8388608)"), State::incomplete);
  EXPECT_EQ(read("05 L(131072)"), State::incomplete);
}

TEST(RequestReader, RefusesMoreAsSoonAsItIsAnnounced) {
  EXPECT_EQ(read("03 L(8193)"), State::refused);
  EXPECT_EQ(read("01 L(0) L(8388609)"), State::refused);
  EXPECT_EQ(read("05 L(131073)"), State::refused);
  EXPECT_EQ(read("05 L(4611686018427387904)"), State::refused);
  EXPECT_EQ(read("05 L(1) L(-1)"), State::refused);
  EXPECT_EQ(read("0B L(1) L(0) L(-1)"), State::refused);
}

TEST(RequestReader, RefusesARequestThatIsTooLongInAll) {
  const std::string pair = bytes("L(0) L(8388608)");
  std::string request = bytes("0B L(8)");
  for (int i = 0; i < 7; ++i) request += pair + std::string(std::size_t{8} << 20, 'v');
  store::RequestReader reader;
  ASSERT_EQ(reader.read(request, StoreProtocol::torch_2), State::incomplete);
  EXPECT_EQ(reader.read(request + pair, StoreProtocol::torch_2), State::refused);
}

TEST(RequestReader, RefusesUnknownRequests) {
  for (const char* number : {"0E", "0F", "10", "11", "12", "13"})
    EXPECT_EQ(read(number), State::refused) << number;
  EXPECT_EQ(read("FF"), State::refused);
  for (const char* number : {"07", "09", "0A", "0D", "FF"})
    EXPECT_EQ(store::RequestReader().read(bytes(number), StoreProtocol::torch_1), State::refused);
}

}  // namespace
}  // namespace shampoo::test
