# stretto_module(NAME DEPS ... [EMBED file...] [LINK target...] [TESTING file...] [EXCEPT file...]): an object library from src/stretto/NAME/**.cc and
# **.S without the EXCEPT files, which others replace in this build (a module in DEPS that is not built adds nothing), and
# NAME_test from its *_test.cc and *_testing.cc files and, for its tests, TESTING files of other modules. NAME/cases.cc and NAME/cases/ are for the tests of all modules, and left
# out without tests. Tables and page parts beside the sources, and the EMBED files, become functions like STEM_text(),
# declared in NAME/STEM.h or NAME/embedded.h.
# stretto_room(NAME/FOLDER DEPS folder...): what a folder of a module may include, for cmake/check_layers.py.
# stretto_library(): everything as one library.
include(GoogleTest OPTIONAL)
set_property(GLOBAL PROPERTY STRETTO_MODULES "")

function(stretto_module name)
  cmake_parse_arguments(ARG "" "" "DEPS;EMBED;LINK;TESTING;EXCEPT" ${ARGN})
  set(root ${CMAKE_SOURCE_DIR}/src/stretto/${name})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${root}/*.cc)
  list(TRANSFORM ARG_EXCEPT PREPEND ${root}/)
  list(REMOVE_ITEM sources ${ARG_EXCEPT})
  set(tests ${sources})
  set(benches ${sources})
  set(fuzzers ${sources})
  list(FILTER sources EXCLUDE REGEX "_(test|testing|bench|fuzz)\\.cc$")
  if(NOT STRETTO_BUILD_TESTS)
    list(FILTER sources EXCLUDE REGEX "/cases(/[^/]+)?\\.cc$")
  endif()
  list(FILTER tests INCLUDE REGEX "_(test|testing)\\.cc$")
  if(tests)
    list(TRANSFORM ARG_TESTING PREPEND ${CMAKE_SOURCE_DIR}/src/stretto/ OUTPUT_VARIABLE helpers)
    list(APPEND tests ${helpers})
  endif()
  list(FILTER benches INCLUDE REGEX "_bench\\.cc$")
  list(FILTER fuzzers INCLUDE REGEX "_fuzz\\.cc$")

  file(GLOB texts CONFIGURE_DEPENDS ${root}/*.tsv ${root}/*.html ${root}/*.css ${root}/*.js)
  foreach(text ${texts} ${ARG_EMBED})
    get_filename_component(stem ${text} NAME_WE)
    set(header stretto/${name}/${stem}.h)
    if(NOT EXISTS ${CMAKE_SOURCE_DIR}/src/${header})
      set(header stretto/${name}/embedded.h)
    endif()
    set(embedded ${CMAKE_BINARY_DIR}/embedded/${name}_${stem}.cc)
    add_custom_command(OUTPUT ${embedded} DEPENDS ${text} ${CMAKE_SOURCE_DIR}/cmake/EmbedText.cmake
      COMMAND ${CMAKE_COMMAND} -DIN=${text} -DOUT=${embedded} -DHEADER=${header}
              -DNAMESPACE=stretto::${name} -DFUNCTION=${stem}_text
              -P ${CMAKE_SOURCE_DIR}/cmake/EmbedText.cmake)
    list(APPEND sources ${embedded})
  endforeach()
  if(NOT sources)
    return()
  endif()

  file(GLOB_RECURSE assembly CONFIGURE_DEPENDS ${root}/*.S)
  add_library(stretto_${name} OBJECT ${sources} ${assembly})
  set_target_properties(stretto_${name} PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(stretto_${name} PUBLIC stretto_options ${STRETTO_FMT}
                        nlohmann_json::nlohmann_json Threads::Threads ${ARG_LINK})
  set_property(GLOBAL APPEND PROPERTY STRETTO_LINKS ${ARG_LINK})
  if(name STREQUAL kernels OR (name STREQUAL media AND NOT STRETTO_ISAS STREQUAL all))
    stretto_precompile(stretto_${name} ${name})  # has compiler flags of its own
  else()
    stretto_precompile(stretto_${name} library)
  endif()
  stretto_unity(${name} ${sources})
  target_include_directories(stretto_${name} SYSTEM PUBLIC ${STRETTO_HWY_INCLUDE}
    ${STRETTO_PROTOZERO_INCLUDE} ${STRETTO_XXHASH_INCLUDE} ${STRETTO_WEBP_INCLUDE} ${STRETTO_TOML_INCLUDE})
  target_compile_definitions(stretto_${name} PRIVATE STRETTO_VERSION="${PROJECT_VERSION}")
  set_property(GLOBAL APPEND PROPERTY STRETTO_MODULES ${name})

  # Transitive closure of DEPS, so that a module's tests link exactly what it may know.
  set(closure ${name})
  foreach(dep ${ARG_DEPS})
    get_property(below GLOBAL PROPERTY STRETTO_CLOSURE_${dep})
    list(APPEND closure ${below})
  endforeach()
  list(REMOVE_DUPLICATES closure)
  set_property(GLOBAL PROPERTY STRETTO_CLOSURE_${name} ${closure})
  set(objects "")
  set(links "")
  set_property(GLOBAL PROPERTY STRETTO_LINK_${name} ${ARG_LINK})
  foreach(module ${closure})
    list(APPEND objects $<TARGET_OBJECTS:stretto_${module}>)
    get_property(link GLOBAL PROPERTY STRETTO_LINK_${module})
    list(APPEND links ${link})
  endforeach()

  # Tests that replay the corpus of a fuzzer have to find it.
  set(replays ${tests})
  list(FILTER replays INCLUDE REGEX "corpus_test\\.cc$")
  if(replays)
    set_source_files_properties(${replays} PROPERTIES COMPILE_DEFINITIONS
                                STRETTO_CORPUS="${CMAKE_SOURCE_DIR}/tests/fuzz")
  endif()
  if(STRETTO_BUILD_TESTS AND tests)
    add_executable(${name}_test ${tests} ${objects})
    target_link_libraries(${name}_test PRIVATE stretto_${name} ${links} GTest::gtest_main)
    stretto_precompile(${name}_test tests <gtest/gtest.h>)
    set_target_properties(${name}_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY
                          ${CMAKE_BINARY_DIR}/tests)
    add_test(NAME ${name} COMMAND ${name}_test)
  endif()
  if(STRETTO_BUILD_BENCH AND benches)
    add_executable(${name}_bench ${benches} ${objects})
    target_link_libraries(${name}_bench PRIVATE stretto_${name} ${links} benchmark::benchmark_main)
    set_target_properties(${name}_bench PROPERTIES RUNTIME_OUTPUT_DIRECTORY
                          ${CMAKE_BINARY_DIR}/bench)
  endif()
  if(STRETTO_BUILD_FUZZ)
    foreach(source ${fuzzers})
      get_filename_component(target ${source} NAME_WE)
      add_executable(${target} ${source} ${objects})
      target_link_libraries(${target} PRIVATE stretto_${name} ${links})
      target_link_options(${target} PRIVATE -fsanitize=fuzzer)
      set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY
                            ${CMAKE_BINARY_DIR}/fuzz)
    endforeach()
  endif()
endfunction()

function(stretto_room)  # the build knows whole modules only
endfunction()

function(stretto_library)
  get_property(modules GLOBAL PROPERTY STRETTO_MODULES)
  set(objects "")
  foreach(module ${modules})
    list(APPEND objects $<TARGET_OBJECTS:stretto_${module}>)
  endforeach()
  file(GLOB faces CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/stretto/*.cc)
  if(NOT STRETTO_BUILD_COMM)
    list(FILTER faces EXCLUDE REGEX "_comm\\.cc$")
  endif()
  get_property(links GLOBAL PROPERTY STRETTO_LINKS)
  add_library(stretto STATIC ${faces} ${objects})
  add_library(stretto::stretto ALIAS stretto)
  set_target_properties(stretto PROPERTIES LINKER_LANGUAGE CXX)
  target_compile_definitions(stretto PRIVATE STRETTO_VERSION="${PROJECT_VERSION}")
  target_link_libraries(stretto PRIVATE $<BUILD_INTERFACE:stretto_options>
                        PUBLIC ${STRETTO_FMT} Threads::Threads ${links})
  target_link_libraries(stretto PRIVATE $<BUILD_INTERFACE:nlohmann_json::nlohmann_json>)
  target_include_directories(stretto PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/src>
                             $<INSTALL_INTERFACE:include>)
  target_compile_features(stretto PUBLIC cxx_std_20)
endfunction()
