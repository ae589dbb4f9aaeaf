// SPDX-License-Identifier: Apache-2.0
#include <shampoo/distributor/transports/gloo/gloo.h>
#include <shampoo/distributor/transports/mpi/mpi.h>
#include <shampoo/shampoo.h>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

/// Minimises the squared distance of a matrix from ones; fails unless it comes much closer.
int train() {
  std::vector<float> value(12 * 7, 0.0f), gradient(12 * 7);
  shampoo::ParameterGroup group{.rates = {.learning_rate = 0.05}};
  group.parameters.push_back(
      {.name = "matrix", .shape = {12, 7}, .value = value.data(), .gradient = gradient.data()});
  auto backend = shampoo::cpu_backend();
  auto ranks = shampoo::single_rank_communicator();
  shampoo::Optimizer optimizer(*backend, *ranks, {group});

  double first = 0, last = 0;
  for (int step = 0; step < 40; ++step) {
    last = 0;
    for (std::size_t i = 0; i < value.size(); ++i) {
      gradient[i] = value[i] - 1.0f;
      last += static_cast<double>(gradient[i]) * static_cast<double>(gradient[i]);
    }
    if (step == 0) first = last;
    optimizer.step();
  }
  std::printf("squared distance %g, then %g\n", first, last);
  return last < 0.1 * first ? 0 : 1;
}

/// True if the call throws, naming the module, the folder where it was, and what to do.
template <typename Call>
bool names_module(const std::string& module, const std::string& advice, const Call& call) {
  try {
    call();
  } catch (const std::exception& error) {
    const std::string said = error.what();
    std::puts(said.c_str());
    return said.find(module + ": not found in ") != std::string::npos &&
           said.find("/shampoo") != std::string::npos && said.find(advice) != std::string::npos;
  }
  return false;
}

int train_without_modules() {
  const bool said =
      !shampoo::has_gloo() && !shampoo::has_mpi() &&
      names_module("libshampoo_blas.so", "", [] { shampoo::cpu_backend(); }) &&
      names_module("libshampoo_gloo.so", "libgloo-dev and -DSHAMPOO_GLOO=ON",
                   [] { shampoo::gloo_communicator({}, nullptr); }) &&
      names_module("libshampoo_mpi.so", "libopenmpi-dev or libmpich-dev and -DSHAMPOO_MPI=ON",
                   [] { shampoo::mpi_communicator(); }) &&
      names_module("libshampoo_mpi.so", "", [] { shampoo::mpi_communicator_of(nullptr); });
  return said ? 0 : 1;
}

int main(int argc, char**) { return argc > 1 ? train_without_modules() : train(); }
