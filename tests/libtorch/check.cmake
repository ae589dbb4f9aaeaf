# SPDX-License-Identifier: Apache-2.0
# Trains on two ranks with PyPI's libtorch in the process, linked before and after the library:
# same bits as without, computed by the same BLAS on as many threads; torch's Gloo sums, and its
# products keep their threads. Prints the times of a refresh. Then on other numbers of ranks, with a
# NaN, and with a rank that is killed.
#   cmake -DBUILD=folder -DSCRATCH=folder -DCOMPILER=c++ -DMPIEXEC=mpirun -P check.cmake
# SHAMPOO_LIBTORCH is the package's folder; see tests/pypi_environment.sh.
cmake_minimum_required(VERSION 3.25)

include("${CMAKE_CURRENT_LIST_DIR}/find_libtorch.cmake")
if(NOT libtorch)
  return()
endif()

set(prefix "${SCRATCH}/prefix")
set(programs "${SCRATCH}/build")
file(REMOVE_RECURSE "${SCRATCH}")
run(${CMAKE_COMMAND} --install "${BUILD}" --prefix "${prefix}")
run(${CMAKE_COMMAND} -G Ninja -S "${CMAKE_CURRENT_LIST_DIR}" -B "${programs}"
  "-DCMAKE_PREFIX_PATH=${prefix}" "-DCMAKE_CXX_COMPILER=${COMPILER}" "-DLIBTORCH=${libtorch}"
  -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF)
run(${CMAKE_COMMAND} --build "${programs}")

# Sets `said` to what two ranks said, one line each.
function(run_ranks program)
  execute_process(COMMAND ${ARGN} "${programs}/${program}" TIMEOUT 120
    OUTPUT_VARIABLE output ERROR_VARIABLE error RESULT_VARIABLE status)
  message("${ARGN} ${program}:\n${output}${error}")
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${program} failed: ${status}")
  endif()
  set(said "${output}" PARENT_SCOPE)
endfunction()

# Fails unless two lines match, and sets `found` to what the expression's group stands for in each.
function(expect_of_both expression)
  string(REGEX MATCHALL "${expression}" lines "${said}")
  list(LENGTH lines count)
  if(NOT count EQUAL 2)
    message(FATAL_ERROR "${count} lines, not 2, match: ${expression}")
  endif()
  set(texts "")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "${expression}" "\\1" text "${line}")
    list(APPEND texts "${text}")
  endforeach()
  set(found "${texts}" PARENT_SCOPE)
endfunction()

function(expect_equal what one other)
  if(NOT one STREQUAL other)
    message(FATAL_ERROR "${what}: \"${one}\" alone, \"${other}\" beside torch")
  endif()
endfunction()

# A shared library's programs do not know the prefix.
set(ENV{LD_LIBRARY_PATH} "${prefix}/lib:$ENV{LD_LIBRARY_PATH}")
# Torch is to have threads.
set(ENV{OMP_NUM_THREADS} 2)
set(gloo "${prefix}/bin/shampoorun" --nproc-per-node 2)
set(mpi "${MPIEXEC}" -n 2)

run_ranks(alone ${gloo})
expect_of_both("bits ([0-9a-f]+)")
list(GET found 0 bits)
expect_of_both("backend ([^\n]+)")
list(GET found 0 backend)
expect_of_both("refreshes on (one thread)")

foreach(program torch_first torch_last)
  foreach(launcher gloo mpi)
    if(launcher STREQUAL "mpi" AND NOT MPIEXEC)
      continue()
    endif()
    run_ranks(${program} ${${launcher}})
    expect_of_both("bits ([0-9a-f]+)")
    expect_equal(bits "${bits};${bits}" "${found}")
    expect_of_both("backend ([^\n]+)")
    expect_equal(backend "${backend};${backend}" "${found}")
    expect_of_both("torch before: (exact, 2 threads at work)")
    expect_of_both("torch after: (exact, 2 threads at work)")
    expect_of_both("refreshes on (one thread)")
    if(launcher STREQUAL "gloo")
      expect_of_both("torch group: (right sums)")
    endif()
  endforeach()
endforeach()

# Sets `bits` to those with which all ranks end that go on from a folder's checkpoints.
function(train_through_faults program ranks folder steps)
  execute_process(
    COMMAND "${prefix}/bin/shampoorun" --nproc-per-node ${ranks} --max-restarts 1
      "${programs}/${program}" "${SCRATCH}/${folder}" ${steps} ${ARGN}
    TIMEOUT 120 OUTPUT_VARIABLE output ERROR_VARIABLE error RESULT_VARIABLE status)
  message("${program}, ${ranks} ranks, ${folder}, ${steps} steps:\n${output}${error}")
  string(REGEX MATCHALL "bits [0-9a-f]+" lines "${output}")
  list(LENGTH lines count)
  list(REMOVE_DUPLICATES lines)
  list(LENGTH lines distinct)
  if(NOT status EQUAL 0 OR NOT count EQUAL ranks OR NOT distinct EQUAL 1)
    message(FATAL_ERROR "${program} failed: ${status}; ${count} ranks ended with ${lines}")
  endif()
  set(bits "${lines}" PARENT_SCOPE)
  set(said "${error}" PARENT_SCOPE)
endfunction()

train_through_faults(alone 1 undisturbed 20)
set(undisturbed "${bits}")
set(steps 0)
foreach(ranks 1 2 3 4 8)
  math(EXPR steps "${steps} + 4")
  train_through_faults(torch_first ${ranks} worlds ${steps})
endforeach()
expect_equal("bits on 1, 2, 3, 4, 8 ranks" "${undisturbed}" "${bits}")
train_through_faults(torch_first 3 killed 20 killed)
expect_equal("bits after a kill" "${undisturbed}" "${bits}")
if(NOT said MATCHES "failed: SIGKILL")
  message(FATAL_ERROR "no rank was killed: ${said}")
endif()
