// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/processors.h"

#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <system_error>

namespace shampoo::launcher {

int count_processors() { return static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN))); }

int count_gpus(const Environment& environment, const std::filesystem::path& devices) {
  int count = 0;
  if (const auto visible = environment.find("CUDA_VISIBLE_DEVICES"); visible != environment.end()) {
    std::istringstream entries(visible->second);
    for (std::string entry; std::getline(entries, entry, ',') && !entry.empty(); ++count) {
      if (entry == "-1") break;
    }
    return count;
  }
  std::error_code nothing;
  for (const auto& file : std::filesystem::directory_iterator(devices, nothing)) {
    const std::string name = file.path().filename();
    count += name.size() > 6 && name.starts_with("nvidia") &&
             name.find_first_not_of("0123456789", 6) == std::string::npos;
  }
  return count;
}

}  // namespace shampoo::launcher
