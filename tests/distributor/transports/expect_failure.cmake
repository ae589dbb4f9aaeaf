# SPDX-License-Identifier: Apache-2.0
# Fails unless a command fails in time and says all that is expected.
#   cmake "-DCOMMAND=program;argument;..." "-DSAYS=regex;regex;..." -DSECONDS=20 -P expect_failure.cmake
cmake_minimum_required(VERSION 3.25)

execute_process(COMMAND ${COMMAND} TIMEOUT ${SECONDS}
  RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said)
message("${said}result: ${result}")
if(result STREQUAL "0")
  message(SEND_ERROR "it succeeded")
elseif(NOT result MATCHES "^[0-9]+$" AND NOT said MATCHES "mpi(exec|run) (detected|noticed) that")
  # Open MPI 4.1 sometimes hangs after it has told how its processes ended.
  message(SEND_ERROR "it did not end by itself")
endif()
foreach(regex IN LISTS SAYS)
  if(NOT said MATCHES "${regex}")
    message(SEND_ERROR "it did not say: ${regex}")
  endif()
endforeach()
