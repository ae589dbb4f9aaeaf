# SPDX-License-Identifier: Apache-2.0
# Plants one violation after the other and fails unless check_layers.cmake reports each.
#   cmake -DSCRATCH=folder -P check_layers_test.cmake
cmake_minimum_required(VERSION 3.25)

set(header "${SCRATCH}/kernels/planted.h")

function(check_planted folder line expected)
  file(REMOVE_RECURSE "${SCRATCH}")
  file(WRITE "${header}" "#pragma once\n")
  set(name planted.h)
  if(ARGC GREATER 3)
    set(name ${ARGV3})
  endif()
  file(APPEND "${SCRATCH}/${folder}/${name}" "${line}\n")
  execute_process(
    COMMAND ${CMAKE_COMMAND} -DROOT=${SCRATCH} -DPUBLIC_HEADERS=${header}
      -P ${CMAKE_CURRENT_LIST_DIR}/check_layers.cmake
    RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
  if(failed AND NOT expected STREQUAL "refused")
    message(SEND_ERROR "in ${folder}, this should be allowed: ${line}")
  elseif(NOT failed AND expected STREQUAL "refused")
    message(SEND_ERROR "in ${folder}, this went unnoticed: ${line}")
  endif()
endfunction()

check_planted(kernels "#include <vector>" allowed)
check_planted(kernels "#include \"kernels/planted.h\"" allowed)
check_planted(distributor "#include \"grouping/blocks.h\"" allowed)
check_planted(shampoo "#include \"distributor/communicator.h\"" allowed)
check_planted(grouping "#include \"kernels/types.h\"" refused)
check_planted(kernels "#include \"grouping/blocks.h\"" refused)
check_planted(distributor "  #  include \"shampoo/recipe.h\"" refused)
check_planted(shampoo "#include \"tests/support/near.h\"" refused)
check_planted(shampoo "#include \"recipe.h\"" refused)
check_planted(grouping "#include <shampoo/shampoo.h>" refused)
check_planted(kernels "#include \"kernels/not_installed.h\"" refused)
check_planted(kernels "#include <cblas.h>" refused)
check_planted(kernels "#include <mpi.h>" refused)
check_planted(kernels "#include <gloo/context.h>" refused)
check_planted(distributor "#include <mpi.h>" allowed transports/mpi/mpi_interop.h)
check_planted(distributor "#include <gloo/context.h>" refused transports/mpi/mpi_interop.h)
check_planted(kernels "#include \"distributor/transports/mpi/mpi_interop.h\"" refused)
check_planted(distributor "#include <nccl.h>" allowed transports/nccl/nccl_interop.h)
check_planted(distributor "#include <cuda_runtime_api.h>" allowed transports/nccl/nccl_interop.h)
check_planted(distributor "#include <mpi.h>" refused transports/nccl/nccl_interop.h)
check_planted(distributor "#include <nccl.h>" refused transports/mpi/mpi_interop.h)
check_planted(kernels "#include <cuda_runtime.h>" refused)
