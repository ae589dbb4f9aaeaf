# SPDX-License-Identifier: Apache-2.0
# Fails when an include points upwards, or a public header shows what users do not have.
#   cmake -DROOT=folder -DPUBLIC_HEADERS=file,file,... -P check_layers.cmake
cmake_minimum_required(VERSION 3.25)

set(may_include_grouping "grouping")
set(may_include_kernels "kernels")
set(may_include_distributor "grouping|kernels|distributor")
set(may_include_shampoo "grouping|kernels|distributor|shampoo")
set(vendors "blas|lapack|mpi|cuda|cublas|cusolver|nccl|dlfcn|immintrin")

foreach(layer grouping kernels distributor shampoo)
  file(GLOB_RECURSE files
    "${ROOT}/${layer}/*.h" "${ROOT}/${layer}/*.cpp" "${ROOT}/${layer}/*.cu")
  foreach(file IN LISTS files)
    # Ours are written from the root and in quotes, theirs in angle brackets.
    file(STRINGS "${file}" ours REGEX "^[ \t]*#[ \t]*include[ \t]*\"")
    foreach(line IN LISTS ours)
      if(NOT line MATCHES "\"(${may_include_${layer}})/")
        message(SEND_ERROR "${file}: ${layer} may not include this: ${line}")
      endif()
    endforeach()
    file(STRINGS "${file}" bracketed
      REGEX "^[ \t]*#[ \t]*include[ \t]*<(grouping|kernels|distributor|shampoo|tests|examples)/")
    foreach(line IN LISTS bracketed)
      message(SEND_ERROR "${file}: our own headers stand in quotes: ${line}")
    endforeach()
  endforeach()
endforeach()

string(REPLACE "," ";" public_headers "${PUBLIC_HEADERS}")
if(NOT public_headers)
  message(SEND_ERROR "no public headers were named")
endif()
foreach(header IN LISTS public_headers)
  file(STRINGS "${header}" includes REGEX "^[ \t]*#[ \t]*include[ \t]*[<\"]")
  foreach(line IN LISTS includes)
    string(TOLOWER "${line}" lowered)
    if(lowered MATCHES "<[^>]*(${vendors})[^>]*>")
      message(SEND_ERROR "${header}: a public header may not include this: ${line}")
    elseif(line MATCHES "\"([^\"]+)\"")
      if(NOT "${ROOT}/${CMAKE_MATCH_1}" IN_LIST public_headers)
        message(SEND_ERROR "${header}: not installed, so not for a public header: ${line}")
      endif()
    endif()
  endforeach()
endforeach()
