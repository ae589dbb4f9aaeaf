// SPDX-License-Identifier: Apache-2.0
#include "tests/distributor/store/golden_exchanges.h"

namespace shampoo::test {

namespace {

constexpr GoldenExchange of_torch_2[] = {
    {"validate", "00 CE F7 85 3C", ""},
    {"count", "07", "L(0)"},
    {"ping", "0D EF BE AD DE", "EF BE AD DE"},
    {"set", "01 L(2) '/x' L(2) 'hi'", ""},
    {"count one", "07", "L(1)"},
    {"get", "03 L(2) '/x'", "L(2) 'hi'"},
    {"check", "05 L(1) L(2) '/x'", "00"},
    {"check one missing", "05 L(2) L(2) '/x' L(2) '/y'", "01"},
    {"check nothing", "05 L(0)", "00"},
    {"add", "04 L(2) '/n' L(1)", "L(1)"},
    {"subtract", "04 L(2) '/n' L(-3)", "L(-2)"},
    {"get counter", "03 L(2) '/n'", "L(2) '-2'"},
    {"wait for present", "06 L(1) L(2) '/x'", "00"},
    {"wait for nothing", "06 L(0)", "00"},
    {"compare missing with empty", "02 L(2) '/c' L(0) L(2) 'v1'", "L(2) 'v1'"},
    {"compare different", "02 L(2) '/c' L(2) 'zz' L(2) 'v2'", "L(2) 'v1'"},
    {"compare equal", "02 L(2) '/c' L(2) 'v1' L(2) 'v2'", "L(2) 'v2'"},
    {"compare missing", "02 L(2) '/d' L(2) 'zz' L(2) 'v2'", "L(2) 'zz'"},
    {"not made by comparing", "05 L(1) L(2) '/d'", "01"},
    {"compare present with empty", "02 L(2) '/c' L(0) L(2) 'v3'", "L(2) 'v2'"},
    {"append", "09 L(2) '/x' L(5) '-more'", ""},
    {"append to nothing", "09 L(3) '/ap' L(3) 'new'", ""},
    {"get many", "0A L(2) L(2) '/x' L(3) '/ap'", "L(7) 'hi-more' L(3) 'new'"},
    {"get none", "0A L(0)", ""},
    {"set many", "0B L(2) L(3) '/m1' L(1) '1' L(3) '/m2' L(2) '22'", ""},
    {"remove", "08 L(3) '/m1'", "L(1)"},
    {"remove again", "08 L(3) '/m1'", "L(0)"},
    {"cancel nothing", "0C", "01"},
    {"set empty", "01 L(2) '/e' L(0)", ""},
    {"get empty", "03 L(2) '/e'", "L(0)"},
    {"check empty", "05 L(1) L(2) '/e'", "00"},
    {"empty key", "01 L(0) L(1) 'k' 03 L(0)", "L(1) 'k'"},
    {"key of zeros", "01 L(2) 00 00 L(1) 'z' 03 L(2) 00 00", "L(1) 'z'"},
    {"add to digits", "01 L(2) '/7' L(2) '7x' 04 L(2) '/7' L(1)", "L(8)"},
    {"add past the end", "04 L(2) '/o' L(9223372036854775807) 04 L(2) '/o' L(1)",
     "L(9223372036854775807) L(-9223372036854775808)"},
    {"first arrival", "04 L(5) 'init/' L(1)", "L(1)"},
    {"wait and cancel", "06 L(1) L(3) '/w3' 0C", "01"},
    {"satisfied before cancel", "06 L(1) L(2) '/x' 0C", "00 01"},
    {"set by the one that waits", "06 L(1) L(3) '/w4' 01 L(3) '/w4' L(0) 07", "00 L(12)"},
    {"many in one write", "07 0D 01 00 00 00 03 L(3) '/m2'", "L(12) 01 00 00 00 L(2) '22'"},
};

constexpr GoldenExchange of_torch_1[] = {
    {"count", "06", "L(0)"},
    {"set", "00 L(2) '/x' L(2) 'hi'", ""},
    {"count one", "06", "L(1)"},
    {"get", "02 L(2) '/x'", "L(2) 'hi'"},
    {"check", "04 L(1) L(2) '/x'", "00"},
    {"check one missing", "04 L(2) L(2) '/x' L(2) '/y'", "01"},
    {"add", "03 L(2) '/n' L(1)", "L(1)"},
    {"subtract", "03 L(2) '/n' L(-3)", "L(-2)"},
    {"get counter", "02 L(2) '/n'", "L(2) '-2'"},
    {"wait for present", "05 L(1) L(2) '/x'", "00"},
    {"compare missing with empty", "01 L(2) '/c' L(0) L(2) 'v1'", "L(2) 'v1'"},
    {"compare different", "01 L(2) '/c' L(2) 'zz' L(2) 'v2'", "L(2) 'v1'"},
    {"compare equal", "01 L(2) '/c' L(2) 'v1' L(2) 'v2'", "L(2) 'v2'"},
    {"remove", "08 L(2) '/c'", "L(1)"},
    {"remove again", "08 L(2) '/c'", "L(0)"},
    {"set empty", "00 L(2) '/e' L(0)", ""},
    {"get empty", "02 L(2) '/e'", "L(0)"},
    {"many in one write", "06 02 L(2) '/x' 06", "L(3) L(2) 'hi' L(3)"},
};

}  // namespace

std::span<const GoldenExchange> golden_exchanges() { return of_torch_2; }
std::span<const GoldenExchange> golden_old_exchanges() { return of_torch_1; }

}  // namespace shampoo::test
