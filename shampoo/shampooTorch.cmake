# SPDX-License-Identifier: Apache-2.0
# The component torch: shampoo::torch, for programs that include shampoo/torch.h. SHAMPOO_LIBTORCH is
# the folder with torch's `include` and `lib`: that of PyPI's package torch, found by python3 unless
# set, or of an unpacked libtorch. torch's own CMake package wants a CUDA toolkit where torch has CUDA. Programs
# with CUDA tensors link torch_cuda and c10_cuda, too.
if(NOT SHAMPOO_LIBTORCH)
  execute_process(
    COMMAND python3 -c "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
    OUTPUT_VARIABLE SHAMPOO_LIBTORCH OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
find_path(SHAMPOO_TORCH_INCLUDE torch/csrc/api/include/torch/torch.h
  PATHS ${SHAMPOO_LIBTORCH}/include NO_DEFAULT_PATH NO_CACHE)
foreach(name torch_cpu c10)
  find_library(SHAMPOO_LIB_${name} ${name} PATHS ${SHAMPOO_LIBTORCH}/lib NO_DEFAULT_PATH NO_CACHE)
endforeach()
set(shampoo_torch_FOUND FALSE)
if(SHAMPOO_TORCH_INCLUDE AND SHAMPOO_LIB_torch_cpu AND SHAMPOO_LIB_c10)
  set(shampoo_torch_FOUND TRUE)
  if(NOT TARGET shampoo::torch)
    add_library(shampoo::torch INTERFACE IMPORTED)
    target_compile_features(shampoo::torch INTERFACE cxx_std_20)
    target_include_directories(shampoo::torch SYSTEM INTERFACE
      ${SHAMPOO_TORCH_INCLUDE} ${SHAMPOO_TORCH_INCLUDE}/torch/csrc/api/include)
    target_link_libraries(shampoo::torch INTERFACE
      shampoo::shampoo ${SHAMPOO_LIB_torch_cpu} ${SHAMPOO_LIB_c10})
  endif()
else()
  set(shampoo_NOT_FOUND_MESSAGE
    "no torch/torch.h, libtorch_cpu and libc10 below \"${SHAMPOO_LIBTORCH}\"; set SHAMPOO_LIBTORCH to PyPI's package torch")
endif()
