# SPDX-License-Identifier: Apache-2.0
# Looks for CUDA 13 and NCCL. Sets SHAMPOO_HAS_CUDA, and switches the language on where it is used.
set(SHAMPOO_CUDA OFF CACHE STRING "CUDA backend and NCCL: ON, OFF, or AUTO, when found")
set_property(CACHE SHAMPOO_CUDA PROPERTY STRINGS AUTO ON OFF)

set(found FALSE)
if(SHAMPOO_CUDA)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90a-real 100-real 100-virtual CACHE STRING
      "Processors that CUDA code is compiled for")
  endif()
  # The program's own runtime, as the CUDA libraries are shared too.
  set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    # For projects that ask for 3.25, that CMake wants nvToolsExt, which CUDA 13 does not have.
    set(asked_for ${CMAKE_MINIMUM_REQUIRED_VERSION})
    set(CMAKE_MINIMUM_REQUIRED_VERSION 3.24)
    find_package(CUDAToolkit 13 QUIET)
    set(CMAKE_MINIMUM_REQUIRED_VERSION ${asked_for})
    find_package(NCCL 2.19 QUIET)
    if(CUDAToolkit_FOUND AND NCCL_FOUND AND TARGET CUDA::cusolver AND TARGET CUDA::cublasLt AND
        CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
      set(found TRUE)
    endif()
  endif()
endif()
shampoo_transport(CUDA "${found}" tests/setup_cuda.sh)
