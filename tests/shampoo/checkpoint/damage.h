// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace shampoo::test {

/// Lengths to which to cut a file: every 512 bytes, before and after every mark of JSON in its
/// first `json_end` bytes, around the length of a header, and `boundaries`. None is the whole.
std::set<std::size_t> cuts(const std::string& whole, std::size_t json_end,
                           const std::vector<std::size_t>& boundaries = {});

/// A manifest that is not true, or not one, although its checksum is right.
struct Lie {
  std::string what;  ///< where it is
  std::string text;  ///< of the whole manifest
};

/// About every field that says what the files hold: missing, under another name, of another kind,
/// with other values; about every element of its lists: missing, or there twice; and about format,
/// save and step.
std::vector<Lie> lies_about(const std::string& manifest);

}  // namespace shampoo::test
