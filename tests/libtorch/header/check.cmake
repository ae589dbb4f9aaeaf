# SPDX-License-Identifier: Apache-2.0
# Builds examples/libtorch and the checks of shampoo/torch.h as users do, with the installed library,
# and runs them on one and two ranks; the trainer also goes on from a checkpoint, and runs under
# the torchrun beside SHAMPOO_TORCH_PYTHON.
#   cmake -DBUILD=folder -DSCRATCH=folder -DCOMPILER=c++ -DEXAMPLE=folder -P check.cmake
# SHAMPOO_LIBTORCH is torch's folder; see tests/pypi_environment.sh.
cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/../find_libtorch.cmake")
if(NOT libtorch)
  return()
endif()

set(prefix "${SCRATCH}/prefix")
file(REMOVE_RECURSE "${SCRATCH}")
run(${CMAKE_COMMAND} --install "${BUILD}" --prefix "${prefix}")
foreach(source "${CMAKE_CURRENT_LIST_DIR}" "${EXAMPLE}")
  cmake_path(GET source FILENAME name)
  run(${CMAKE_COMMAND} -G Ninja -S "${source}" -B "${SCRATCH}/${name}" "-DCMAKE_PREFIX_PATH=${prefix}"
    "-DCMAKE_CXX_COMPILER=${COMPILER}" "-DSHAMPOO_LIBTORCH=${libtorch}"
    -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF)
  run(${CMAKE_COMMAND} --build "${SCRATCH}/${name}")
endforeach()

set(ENV{LD_LIBRARY_PATH} "${prefix}/lib:$ENV{LD_LIBRARY_PATH}")
set(ENV{OMP_NUM_THREADS} 1)
set(launcher "${prefix}/bin/shampoorun")

# Sets `loss` to the trainer's at step 60.
function(train by ranks folder steps)
  execute_process(COMMAND "${by}" --no-python --nproc-per-node ${ranks}
      "${SCRATCH}/libtorch/trainer" "${SCRATCH}/${folder}" ${steps}
    TIMEOUT 120 OUTPUT_VARIABLE output ERROR_VARIABLE error COMMAND_ERROR_IS_FATAL ANY)
  message("${by}, ${ranks} ranks, ${folder}, ${steps} steps:\n${output}${error}")
  string(REGEX MATCH "step 60  loss [0-9.]+" loss "${output}")
  set(loss "${loss}" PARENT_SCOPE)
endfunction()

cmake_path(SET torchrun "$ENV{SHAMPOO_TORCH_PYTHON}")
cmake_path(REPLACE_FILENAME torchrun torchrun)
if(NOT EXISTS "${torchrun}")
  message("torchrun: skipped, SHAMPOO_TORCH_PYTHON names no Python beside one")
endif()

foreach(ranks 1 2)
  run("${launcher}" --nproc-per-node ${ranks} "${SCRATCH}/header/checks" "${SCRATCH}/state${ranks}")
  train("${launcher}" ${ranks} whole${ranks} 60)
  set(whole "${loss}")
  train("${launcher}" ${ranks} parts${ranks} 40)
  train("${launcher}" ${ranks} parts${ranks} 60)
  # 1.386, ln 4, is the loss of a network that knows nothing.
  if(NOT whole OR NOT loss STREQUAL whole OR NOT whole MATCHES "loss 0[.]")
    message(FATAL_ERROR "${ranks} ranks: \"${whole}\" in one go, \"${loss}\" in two")
  endif()
  if(EXISTS "${torchrun}")
    train("${torchrun}" ${ranks} torchrun${ranks} 60)
    if(NOT loss STREQUAL whole)
      message(FATAL_ERROR "${ranks} ranks: \"${whole}\" by shampoorun, \"${loss}\" by torchrun")
    endif()
  endif()
endforeach()
