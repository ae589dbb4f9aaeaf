// SPDX-License-Identifier: Apache-2.0
#include <set>
#include <string>
#include <vector>

#include "shampoo/checkpoint.h"

namespace shampoo {

std::vector<UserTensor> value_tensors(Optimizer& optimizer, const std::string& prefix) {
  std::vector<UserTensor> tensors;
  std::set<std::string> known;  // a parameter that was thawed is in two groups
  for (int g = 0; g < optimizer.group_count(); ++g)
    for (const Parameter& parameter : optimizer.group(g).parameters())
      if (known.insert(parameter.name).second)
        tensors.push_back({prefix + parameter.name, parameter.shape, parameter.value});
  return tensors;
}

}  // namespace shampoo
