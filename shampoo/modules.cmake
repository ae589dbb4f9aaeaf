# SPDX-License-Identifier: Apache-2.0
# Modules: shared objects through which the library reaches those libraries of others that a
# program may have in another version. See kernels/module.h, which finds them when it runs.

set(SHAMPOO_MODULE_FOLDER ${CMAKE_INSTALL_LIBDIR}/shampoo)
set(module_build_folder ${PROJECT_BINARY_DIR}/modules)

# Makes `folder`/libshampoo_<name>.so, which calls its own functions and static libraries whatever
# the program has of the same names.
function(shampoo_add_module target name folder)
  add_library(${target} MODULE ${ARGN})
  target_compile_features(${target} PRIVATE cxx_std_20)
  target_compile_definitions(${target} PRIVATE SHAMPOO_VERSION="${PROJECT_VERSION}")
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR} ${SHAMPOO_INCLUDE})
  target_link_options(${target} PRIVATE LINKER:-Bsymbolic)
  set_target_properties(${target} PROPERTIES
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    INSTALL_RPATH_USE_LINK_PATH ON
    OUTPUT_NAME shampoo_${name}
    LIBRARY_OUTPUT_DIRECTORY ${folder})
endfunction()

# A module of the library.
function(shampoo_module name)
  shampoo_add_module(shampoo_${name} ${name} ${module_build_folder} ${ARGN})
  add_dependencies(shampoo shampoo_${name})
  install(TARGETS shampoo_${name} LIBRARY DESTINATION ${SHAMPOO_MODULE_FOLDER})
endfunction()

# Who opens them: the shared library, which looks beside itself too, or what a static one is in,
# but for programs with the property SHAMPOO_WITHOUT_MODULES.
get_target_property(type shampoo TYPE)
if(type STREQUAL "SHARED_LIBRARY")
  set_target_properties(shampoo PROPERTIES BUILD_RPATH ${module_build_folder})
else()
  target_link_options(shampoo INTERFACE
    $<BUILD_INTERFACE:$<$<NOT:$<BOOL:$<TARGET_PROPERTY:SHAMPOO_WITHOUT_MODULES>>>:-Wl,-rpath,${module_build_folder}>>
    $<INSTALL_INTERFACE:-Wl,-rpath,$<INSTALL_PREFIX>/${SHAMPOO_MODULE_FOLDER}>)
endif()
