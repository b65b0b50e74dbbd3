# Language level, warnings, sanitizers and the build cache: the same for every target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

# Kernels ask for -O3 themselves (CMakeLists.txt); elsewhere it costs a third of the build and gains
# nothing.
string(REPLACE "-O3" "-O2" CMAKE_CXX_FLAGS_RELEASE "${CMAKE_CXX_FLAGS_RELEASE}")
# What developers and CI build most: line numbers without variables, and -O1 outside the kernels,
# compile in half the time of -O2 -g (docs/design/build.md).
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1 -DNDEBUG")

find_program(STRETTO_CCACHE ccache)
if(STRETTO_CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${STRETTO_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${STRETTO_CCACHE})
endif()

add_library(stretto_options INTERFACE)
target_compile_options(stretto_options INTERFACE -Wall -Wextra -Wno-missing-field-initializers -fno-math-errno)
target_include_directories(stretto_options INTERFACE
  $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/src>)

# Fuzzers look for what parsers and checks let through; kernels, which take minutes a file to
# instrument with Clang, are left to the sanitizer presets.
set(instrumented $<NOT:$<STREQUAL:$<TARGET_PROPERTY:NAME>,stretto_kernels>>)
if(NOT STRETTO_BUILD_FUZZ)
  set(instrumented 1)
endif()

# Without no-recover a finding of the undefined-behaviour sanitizer is a line on stderr and the test
# passes.
if(STRETTO_SANITIZE)
  foreach(option -fsanitize=${STRETTO_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer
                 -g1 -O1)
    target_compile_options(stretto_options INTERFACE $<${instrumented}:${option}>)
  endforeach()
  target_link_options(stretto_options INTERFACE -fsanitize=${STRETTO_SANITIZE})
endif()
if(STRETTO_BUILD_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "STRETTO_BUILD_FUZZ needs Clang: configure with -DCMAKE_CXX_COMPILER=clang++ "
                        "(Debian package: clang)")
  endif()
  target_compile_options(stretto_options INTERFACE $<${instrumented}:-fsanitize=fuzzer-no-link>)
endif()
