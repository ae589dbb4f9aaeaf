# SPDX-License-Identifier: Apache-2.0
# Installs the library, moves it elsewhere, then builds and runs a stranger's program twice: by
# find_package and by pkg-config. The stranger has headers of the same names, is linked with nothing
# that the modules are for, and is told where they are looked for when they are gone.
#   cmake -DBUILD=folder -DSCRATCH=folder -DCOMPILER=c++ -DFLAGS=... -P check.cmake
cmake_minimum_required(VERSION 3.25)

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

cmake_path(ABSOLUTE_PATH BUILD)
cmake_path(ABSOLUTE_PATH SCRATCH)
set(stage "${SCRATCH}/stage")
set(moved "${SCRATCH}/moved")
file(REMOVE_RECURSE "${SCRATCH}")
run(${CMAKE_COMMAND} --install "${BUILD}" --prefix "${stage}")
file(RENAME "${stage}" "${moved}")
set(ENV{LD_LIBRARY_PATH} "${moved}/lib:$ENV{LD_LIBRARY_PATH}")

set(own "${SCRATCH}/own")
foreach(header kernels/types.h kernels/backend.h distributor/communicator.h grouping/box.h)
  file(WRITE "${own}/${header}" "#error the library includes the header of another project\n")
endforeach()

# g++ is gcc's, clang++-14 that of clang-14.
cmake_path(GET COMPILER FILENAME c_compiler)
string(REPLACE "clang++" "clang" c_compiler "${c_compiler}")
string(REPLACE "g++" "gcc" c_compiler "${c_compiler}")
string(REPLACE "c++" "cc" c_compiler "${c_compiler}")

run(${CMAKE_COMMAND} -G Ninja -S "${CMAKE_CURRENT_LIST_DIR}" -B "${SCRATCH}/found"
  "-DCMAKE_PREFIX_PATH=${moved}" "-DCMAKE_CXX_COMPILER=${COMPILER}" "-DCMAKE_CXX_FLAGS=${FLAGS}"
  "-DCMAKE_C_COMPILER=${c_compiler}" "-DCMAKE_C_FLAGS=${FLAGS}"
  -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF -DCMAKE_INSTALL_LIBDIR=lib "-DOWN_HEADERS=${own}")
run(${CMAKE_COMMAND} --build "${SCRATCH}/found")
run("${SCRATCH}/found/stranger")

# A project in C alone.
run(${CMAKE_COMMAND} -G Ninja -S "${CMAKE_CURRENT_LIST_DIR}/only_c" -B "${SCRATCH}/only_c"
  "-DCMAKE_PREFIX_PATH=${moved}" "-DCMAKE_C_COMPILER=${c_compiler}" "-DCMAKE_C_FLAGS=${FLAGS}"
  -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF)
run(${CMAKE_COMMAND} --build "${SCRATCH}/only_c")

file(GLOB_RECURSE pc "${moved}/*/shampoo.pc")
if(NOT pc)
  message(FATAL_ERROR "shampoo.pc was not installed")
endif()
cmake_path(GET pc PARENT_PATH pc_folder)
set(ENV{PKG_CONFIG_PATH} "${pc_folder}")
function(ask_pkg_config answer)
  execute_process(COMMAND pkg-config ${ARGN} shampoo
    OUTPUT_VARIABLE options OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  # A toolkit of CUDA is no place where programs look for libraries by themselves.
  string(REGEX REPLACE "(^| )-L([^ ]+)" "\\1-L\\2 -Wl,-rpath,\\2" options "${options}")
  separate_arguments(options UNIX_COMMAND "${options}")
  set(${answer} "${options}" PARENT_SCOPE)
endfunction()
ask_pkg_config(options --cflags --libs)
separate_arguments(compiler_flags UNIX_COMMAND "${FLAGS}")
run(${COMPILER} ${compiler_flags} "-I${own}" "${CMAKE_CURRENT_LIST_DIR}/main.cpp" ${options}
  -o "${SCRATCH}/by_pkg_config")
run("${SCRATCH}/by_pkg_config")

ask_pkg_config(options --cflags-only-I --libs --static)
run(${c_compiler} ${compiler_flags} -std=c99 -pedantic -Wall -Wextra -Werror
  "${CMAKE_CURRENT_LIST_DIR}/main.c" ${options} -o "${SCRATCH}/c_by_pkg_config")

# The same bits in C as in C++, also by way of a checkpoint, and on two ranks, where the mean of equal
# gradients is exact.
execute_process(COMMAND "${SCRATCH}/found/same_as_c" OUTPUT_VARIABLE expected
  COMMAND_ERROR_IS_FATAL ANY)
file(GLOB_RECURSE gloo "${moved}/*/libshampoo_gloo.so")
if(gloo AND EXISTS "${moved}/bin/shampoorun")
  set(on_two_ranks "${moved}/bin/shampoorun --no-python --nproc-per-node 2 ${SCRATCH}/only_c/only_c")
endif()
foreach(program "${SCRATCH}/found/stranger_in_c" "${SCRATCH}/only_c/only_c"
    "${SCRATCH}/c_by_pkg_config"
    "${SCRATCH}/c_by_pkg_config ${SCRATCH}/checkpoints" ${on_two_ranks})
  separate_arguments(program)
  execute_process(COMMAND ${program} OUTPUT_VARIABLE values COMMAND_ERROR_IS_FATAL ANY)
  if(NOT values STREQUAL expected)
    message(FATAL_ERROR "${program}: other values than in C++:\n${values}\n${expected}")
  endif()
endforeach()

file(GLOB_RECURSE libraries "${moved}/*/libshampoo.so")
foreach(file "${SCRATCH}/found/stranger" "${SCRATCH}/by_pkg_config" ${libraries})
  execute_process(COMMAND readelf -d "${file}" OUTPUT_VARIABLE needs COMMAND_ERROR_IS_FATAL ANY)
  if(needs MATCHES "NEEDED[^\n]*\\[lib(gloo|mpi|open-|blas|openblas|lapack)")
    message(FATAL_ERROR "${file} is linked with a library that a module is for:\n${needs}")
  endif()
endforeach()

file(GLOB_RECURSE modules "${moved}/*/libshampoo_*.so")
file(REMOVE ${modules})
run("${SCRATCH}/found/stranger" without-modules)
run("${SCRATCH}/by_pkg_config" without-modules)
