# SPDX-License-Identifier: Apache-2.0
# What find_package(shampoo CONFIG) and pkg-config read.
include(CMakePackageConfigHelpers)

set(SHAMPOO_PACKAGE_FOLDER ${CMAKE_INSTALL_LIBDIR}/cmake/shampoo)
if(BUILD_SHARED_LIBS)
  set(SHAMPOO_IS_SHARED TRUE)
else()
  set(SHAMPOO_IS_SHARED FALSE)
endif()

configure_package_config_file(shampoo/shampooConfig.cmake.in shampooConfig.cmake
  INSTALL_DESTINATION ${SHAMPOO_PACKAGE_FOLDER})
# Before 1.0 a new minor version may break.
write_basic_package_version_file(shampooConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(EXPORT shampooTargets NAMESPACE shampoo:: DESTINATION ${SHAMPOO_PACKAGE_FOLDER})
install(FILES
  ${PROJECT_BINARY_DIR}/shampooConfig.cmake ${PROJECT_BINARY_DIR}/shampooConfigVersion.cmake
  shampoo/shampooTorch.cmake
  DESTINATION ${SHAMPOO_PACKAGE_FOLDER})
# Compiled by programs, with their torch and their dlpack.h.
install(FILES shampoo/c10d.h shampoo/dlpack.h shampoo/torch.h shampoo/torch_state.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/shampoo)

# The names to link with, without folders, so that the package can be moved.
set(SHAMPOO_PC_NEEDS "")
set(libraries "")
if(SHAMPOO_HAS_CUDA)
  # Not part of the package, so its folder may be named; linkers do not look there by themselves.
  list(APPEND libraries -L${CUDAToolkit_LIBRARY_DIR} -lcublasLt -lcublas -lcusolver -lcudart -lnccl)
  install(FILES distributor/FindNCCL.cmake DESTINATION ${SHAMPOO_PACKAGE_FOLDER})
endif()
foreach(library IN LISTS libraries)
  if(library MATCHES "/lib([^/]+)\\.(so|a)$")
    string(APPEND SHAMPOO_PC_NEEDS " -l${CMAKE_MATCH_1}")
  elseif(library MATCHES "^-")
    string(APPEND SHAMPOO_PC_NEEDS " ${library}")
  endif()
endforeach()
string(APPEND SHAMPOO_PC_NEEDS " -pthread")
foreach(library IN LISTS CMAKE_DL_LIBS)
  string(APPEND SHAMPOO_PC_NEEDS " -l${library}")
endforeach()
if(SHAMPOO_IS_SHARED)
  set(SHAMPOO_PC_LIBS "")
  set(SHAMPOO_PC_PRIVATE_LIBS "${SHAMPOO_PC_NEEDS}")
else()
  # Modules are looked for in the run path of the program that a static library is in.
  set(SHAMPOO_PC_LIBS "${SHAMPOO_PC_NEEDS} -Wl,-rpath,\${libdir}/shampoo")
  set(SHAMPOO_PC_PRIVATE_LIBS "")
endif()
set(pc_folder ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH SHAMPOO_PC_PREFIX /${pc_folder} /)
configure_file(shampoo.pc.in shampoo.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/shampoo.pc DESTINATION ${pc_folder})
