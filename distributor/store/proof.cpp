// SPDX-License-Identifier: Apache-2.0
#include "distributor/store/proof.h"

#include <array>
#include <fstream>
#include <stdexcept>

#include "distributor/system/hmac.h"

namespace shampoo::store {

namespace {

constexpr const char* variable = "SHAMPOO_JOB_SECRET";
constexpr const char* file_variable = "SHAMPOO_JOB_SECRET_FILE";

std::string read_secret(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text;
  std::array<char, 4096> part;
  while (file.read(part.data(), part.size()), file.gcount() > 0)
    text.append(part.data(), static_cast<std::size_t>(file.gcount()));
  if (!file.eof())
    throw std::invalid_argument(std::string(file_variable) + ": cannot read " + path);
  constexpr const char* blanks = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string::npos)
    throw std::invalid_argument(std::string(file_variable) + ": " + path + " is empty");
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

}  // namespace

std::string server_proof(std::string_view secret, std::string_view challenges) {
  return hmac_sha256(secret, std::string("server").append(challenges));
}

std::string client_proof(std::string_view secret, std::string_view challenges) {
  return hmac_sha256(secret, std::string("client").append(challenges));
}

void check_secret(std::string_view secret) {
  constexpr std::size_t least = 16;
  if (!secret.empty() && secret.size() < least)
    throw std::invalid_argument("the job's secret must have at least " + std::to_string(least) +
                                " bytes, got " + std::to_string(secret.size()));
}

std::string job_secret(const Environment& environment) {
  std::string secret = value_or(environment, variable, "");
  const std::string path = value_or(environment, file_variable, "");
  if (!secret.empty() && !path.empty())
    throw std::invalid_argument(std::string(variable) + " and " + file_variable +
                                " exclude each other");
  if (!path.empty()) secret = read_secret(path);
  check_secret(secret);
  return secret;
}

std::string new_job_secret() { return hexadecimal(random_bytes(32)); }

}  // namespace shampoo::store
