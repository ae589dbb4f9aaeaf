# SPDX-License-Identifier: Apache-2.0
# Public headers, and examples, name every header of the library below shampoo/, as its users do:
# "shampoo/kernels/types.h". This folder has them there in the build.
set(SHAMPOO_INCLUDE ${PROJECT_BINARY_DIR}/include)
file(MAKE_DIRECTORY ${SHAMPOO_INCLUDE}/shampoo)
foreach(layer grouping kernels distributor)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${layer} ${SHAMPOO_INCLUDE}/shampoo/${layer} SYMBOLIC)
endforeach()

# Public headers of the calling folder, which is a layer or in one.
function(shampoo_public_headers)
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY ${PROJECT_SOURCE_DIR}
    OUTPUT_VARIABLE folder)
  list(TRANSFORM ARGN PREPEND ${SHAMPOO_INCLUDE}/shampoo/${folder}/ OUTPUT_VARIABLE headers)
  target_sources(shampoo
    PUBLIC FILE_SET layers TYPE HEADERS BASE_DIRS ${SHAMPOO_INCLUDE} FILES ${headers})
endfunction()
