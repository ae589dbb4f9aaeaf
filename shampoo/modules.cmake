# SPDX-License-Identifier: Apache-2.0
# Modules: shared objects through which the library reaches those libraries of others that a
# program may have in another version. See kernels/module.h, which finds them when it runs.

set(SHAMPOO_MODULE_FOLDER ${CMAKE_INSTALL_LIBDIR}/shampoo)
set(module_build_folder ${PROJECT_BINARY_DIR}/modules)

# Makes libshampoo_<name>.so, whose own functions and static libraries are called by none but itself.
function(shampoo_module name)
  set(module shampoo_${name})
  add_library(${module} MODULE ${ARGN})
  target_compile_features(${module} PRIVATE cxx_std_20)
  target_include_directories(${module} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_options(${module} PRIVATE LINKER:-Bsymbolic)
  set_target_properties(${module} PROPERTIES
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    INSTALL_RPATH_USE_LINK_PATH ON
    LIBRARY_OUTPUT_DIRECTORY ${module_build_folder})
  add_dependencies(shampoo ${module})
  install(TARGETS ${module} LIBRARY DESTINATION ${SHAMPOO_MODULE_FOLDER})
endfunction()

# Who opens them: the shared library, which looks beside itself too, or what a static one is in.
get_target_property(type shampoo TYPE)
if(type STREQUAL "SHARED_LIBRARY")
  set_target_properties(shampoo PROPERTIES BUILD_RPATH ${module_build_folder})
else()
  target_link_options(shampoo INTERFACE
    $<BUILD_INTERFACE:-Wl,-rpath,${module_build_folder}>
    $<INSTALL_INTERFACE:-Wl,-rpath,$<INSTALL_PREFIX>/${SHAMPOO_MODULE_FOLDER}>)
endif()
