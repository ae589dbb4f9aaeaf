# SPDX-License-Identifier: Apache-2.0
# `libtorch`: the folder of PyPI's torch that SHAMPOO_LIBTORCH names, or empty after a line that says
# SKIP; an error if SHAMPOO_REQUIRE_TORCH is set.
set(libtorch "$ENV{SHAMPOO_LIBTORCH}")
if(NOT EXISTS "${libtorch}/lib/libtorch_cpu.so")
  set(missing "SHAMPOO_LIBTORCH names no folder of PyPI's torch: \"${libtorch}\"")
  if("$ENV{SHAMPOO_REQUIRE_TORCH}")
    message(FATAL_ERROR "${missing}")
  endif()
  message("SKIP: ${missing}")
  set(libtorch "")
endif()

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()
