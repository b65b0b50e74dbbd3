# Which files of a module a unity build (CMAKE_UNITY_BUILD, as in the preset `native`) compiles as
# one: all but those that use the same names on purpose. Every rewrite has its `run`, every operator
# its `infer`, every kernel its `fits`.

# GCC takes what is not the main file for a header, in which a class may not have members of types
# in unnamed namespaces. The files of a unity build are such files, and no headers.
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  target_compile_options(stretto_options INTERFACE -Wno-subobject-linkage)
endif()

# stretto_unity(MODULE source...)
function(stretto_unity module)
  if(module STREQUAL kernels)
    # Families have namespaces of their own, so files of one name go together.
    set_target_properties(stretto_kernels PROPERTIES UNITY_BUILD_MODE GROUP)
    foreach(source ${ARGN})
      if(source MATCHES "/(problem|candidates|reference)\\.cc$")
        set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${CMAKE_MATCH_1})
        stretto_unity_member("the kernels' ${CMAKE_MATCH_1}.cc" ${source})
      endif()
    endforeach()
    return()
  endif()
  if(module MATCHES "^(media|data|comm)$")
    # Decoders, picture operators, sources and parts of the gradient engine have helpers of the same
    # names.
    set_target_properties(stretto_${module} PROPERTIES UNITY_BUILD OFF)
    return()
  endif()
  # What operators share, and what rewrites share, has names of its own.
  set(alone ${ARGN})
  list(FILTER alone INCLUDE REGEX "/ir/ops/|/passes/|/tensor/elementwise\\.cc$|/embedded/")
  list(FILTER alone EXCLUDE REGEX
       "/ops/(axes|epilogue|indexing|limits|matrix_product|parallel|strided|table|window)\\.cc$")
  list(FILTER alone EXCLUDE REGEX "/passes/(bisect|match|pass|pipeline|rewriter|view)\\.cc$")
  set_source_files_properties(${alone} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  set(as_one ${ARGN})
  list(REMOVE_ITEM as_one ${alone} "")
  foreach(source ${as_one})
    stretto_unity_member(${module} ${source})
  endforeach()
endfunction()

function(stretto_unity_member group source)
  set_property(GLOBAL APPEND_STRING PROPERTY STRETTO_UNITY "${group}\t${source}\n")
endfunction()

# Ends the configuration where files that are compiled as one define the same names, for tests build
# them one by one and would not notice.
function(stretto_check_unity)
  find_program(STRETTO_PYTHON3 python3)
  if(NOT STRETTO_PYTHON3)
    return()
  endif()
  get_property(members GLOBAL PROPERTY STRETTO_UNITY)
  file(WRITE ${CMAKE_BINARY_DIR}/unity.txt "${members}")
  execute_process(COMMAND ${STRETTO_PYTHON3} ${CMAKE_SOURCE_DIR}/cmake/check_unity.py
                          ${CMAKE_BINARY_DIR}/unity.txt
                  OUTPUT_VARIABLE problems ERROR_VARIABLE problems RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "${problems}")
  endif()
endfunction()
