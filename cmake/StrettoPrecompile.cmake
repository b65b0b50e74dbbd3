# Headers of other projects that most files include, read once for a whole group of targets. GCC
# only: what Clang gains has not been measured. System headers alone, so that the result is the same
# in every clone and the compiler cache can share it (./dev sets CCACHE_SLOPPINESS for that).
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND NOT STRETTO_SANITIZE)
  set(default ON)
else()
  set(default OFF)  # and so ./dev check sees a file that forgets an #include
endif()
option(STRETTO_PRECOMPILE "Precompile common headers of other projects" ${default})

set(STRETTO_COMMON_HEADERS <algorithm> <cmath> <cstring> <fmt/format.h> <functional> <map> <memory>
    <optional> <span> <string> <thread> <unordered_map> <vector>)

# stretto_precompile(TARGET GROUP [header...]): TARGET reads the common headers, and those named,
# precompiled. Targets of one GROUP have the same compiler flags and name the same headers.
function(stretto_precompile target group)
  if(NOT STRETTO_PRECOMPILE)
    return()
  endif()
  get_property(first GLOBAL PROPERTY STRETTO_PRECOMPILED_${group})
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    target_precompile_headers(${target} PRIVATE ${STRETTO_COMMON_HEADERS} ${ARGN})
    set_property(GLOBAL PROPERTY STRETTO_PRECOMPILED_${group} ${target})
  endif()
  target_compile_options(${target} PRIVATE -fpch-preprocess)  # the compiler cache asks for it
endfunction()
