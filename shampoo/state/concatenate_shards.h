// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shampoo/state_dict.h"

namespace shampoo {

/// Makes one tensor of the parts of every elementwise one, where they cover it. In the order of
/// names before and after.
void join_parts(StateDict& dict);

}  // namespace shampoo
