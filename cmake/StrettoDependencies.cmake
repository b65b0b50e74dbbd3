include(CheckCXXSourceCompiles)

# System libraries. A missing one is named together with the Debian package that has it.
function(stretto_require package debian)
  find_package(${package} QUIET ${ARGN})
  if(NOT ${package}_FOUND)
    message(FATAL_ERROR "Stretto needs ${package}. On Debian or Ubuntu: apt-get install ${debian}")
  endif()
  foreach(suffix FOUND DIR)
    set(${package}_${suffix} "${${package}_${suffix}}" PARENT_SCOPE)
  endforeach()
endfunction()

function(stretto_require_header header debian variable)
  find_path(${variable} ${header} PATHS ${ARGN})
  if(NOT ${variable})
    message(FATAL_ERROR "Stretto needs the header ${header}. "
                        "On Debian or Ubuntu: apt-get install ${debian}")
  endif()
endfunction()

# Highway's headers as `variable`. Ubuntu 22.04 has 0.x, which lacks operations that the kernels use:
# there a pinned version is fetched. STRETTO_FETCH_HIGHWAY=OFF refuses to, and -D${variable}=FOLDER
# names another copy.
option(STRETTO_FETCH_HIGHWAY "Fetch Highway with git where the installed one is older than 1.0" ON)
function(stretto_require_highway variable)
  stretto_require_header(hwy/highway.h libhwy-dev ${variable})
  foreach(header base highway)
    file(STRINGS ${${variable}}/hwy/${header}.h found REGEX "^#define HWY_MAJOR ")
    if(found MATCHES "HWY_MAJOR ([0-9]+)")
      set(major ${CMAKE_MATCH_1})
    endif()
  endforeach()
  if(major GREATER_EQUAL 1)
    return()
  endif()
  if(NOT STRETTO_FETCH_HIGHWAY)
    message(FATAL_ERROR "Stretto needs Highway 1.0 or later; ${${variable}} has ${major}.x. Allow it "
                        "to be fetched (-DSTRETTO_FETCH_HIGHWAY=ON), or name a folder that has "
                        "hwy/highway.h (-D${variable}=FOLDER)")
  endif()
  message(STATUS "Highway ${major}.x is too old: fetching 1.0.7")
  include(FetchContent)
  FetchContent_Declare(highway GIT_REPOSITORY https://github.com/google/highway
                       GIT_TAG ba0900a4957b929390ab73827235557959234fea  # 1.0.7
                       SOURCE_SUBDIR none)  # the headers alone
  FetchContent_MakeAvailable(highway)
  set(${variable} ${highway_SOURCE_DIR} CACHE PATH "Highway's headers" FORCE)
endfunction()

# Other libraries of the same interface lack functions that media uses, or vector code.
function(stretto_require_libjpeg_turbo)
  set(CMAKE_REQUIRED_LIBRARIES JPEG::JPEG)
  check_cxx_source_compiles("#include <stdio.h>
#include <jpeglib.h>
#if !defined(LIBJPEG_TURBO_VERSION) || BITS_IN_JSAMPLE != 8
#error not libjpeg-turbo
#endif
int main() { return sizeof(&jpeg_crop_scanline) == 0; }" STRETTO_HAS_LIBJPEG_TURBO)
  if(NOT STRETTO_HAS_LIBJPEG_TURBO)
    unset(STRETTO_HAS_LIBJPEG_TURBO CACHE)  # to be asked again
    message(FATAL_ERROR "Stretto needs libjpeg-turbo 1.5 or later; ${JPEG_INCLUDE_DIR} has another "
                        "libjpeg. On Debian or Ubuntu: apt-get install libjpeg-dev. "
                        "-DSTRETTO_BUILD_MEDIA=OFF builds without the decoders of pictures")
  endif()
endfunction()

find_package(Threads REQUIRED)
if(CMAKE_CROSSCOMPILING)
  # The host's package has the sources for every architecture and the library for its own.
  stretto_require_header(fmt/format-inl.h libfmt-dev STRETTO_FMT_INCLUDE)
  add_library(stretto_fmt STATIC ${CMAKE_SOURCE_DIR}/cmake/static_fmt.cc)
  target_include_directories(stretto_fmt SYSTEM PUBLIC ${STRETTO_FMT_INCLUDE})
  set(STRETTO_FMT stretto_fmt)
else()
  stretto_require(fmt libfmt-dev GLOBAL)
  set(STRETTO_FMT fmt::fmt)
endif()
if(STRETTO_STATIC_DEPENDENCIES)
  set(OPENSSL_USE_STATIC_LIBS ON)
  # The definitions and headers of fmt::fmt, so that the same objects serve both kinds of build.
  add_library(stretto_fmt STATIC ${CMAKE_SOURCE_DIR}/cmake/static_fmt.cc)
  target_include_directories(stretto_fmt SYSTEM PUBLIC
                             $<TARGET_PROPERTY:fmt::fmt,INTERFACE_INCLUDE_DIRECTORIES>)
  target_compile_definitions(stretto_fmt PUBLIC
                             $<TARGET_PROPERTY:fmt::fmt,INTERFACE_COMPILE_DEFINITIONS>)
  target_compile_features(stretto_fmt PUBLIC cxx_std_11)
  set(STRETTO_FMT stretto_fmt)
endif()
if(STRETTO_BUILD_COMM)
  stretto_require(OpenSSL libssl-dev COMPONENTS Crypto GLOBAL)
endif()
if(STRETTO_BUILD_MEDIA)
  stretto_require(JPEG libjpeg-dev GLOBAL)
  stretto_require_libjpeg_turbo()
  stretto_require(PNG libpng-dev GLOBAL)
  stretto_require_header(webp/decode.h libwebp-dev STRETTO_WEBP_INCLUDE)
  find_library(STRETTO_WEBP_LIBRARY webp)
  if(NOT STRETTO_WEBP_LIBRARY)
    message(FATAL_ERROR "Stretto needs libwebp. On Debian or Ubuntu: apt-get install libwebp-dev")
  endif()
endif()
stretto_require(nlohmann_json nlohmann-json3-dev GLOBAL)
stretto_require_highway(STRETTO_HWY_INCLUDE)
stretto_require_header(protozero/pbf_reader.hpp libprotozero-dev STRETTO_PROTOZERO_INCLUDE)
stretto_require_header(xxhash.h libxxhash-dev STRETTO_XXHASH_INCLUDE)
stretto_require_header(toml++/toml.h libtomlplusplus-dev STRETTO_TOML_INCLUDE)
# The report page embeds it, so that the page needs no network.
find_file(STRETTO_CHART_JS chart.min.js PATHS /usr/share/javascript/chart.js NO_DEFAULT_PATH)
if(NOT STRETTO_CHART_JS)
  message(FATAL_ERROR "Stretto needs Chart.js. On Debian or Ubuntu: apt-get install libjs-chart.js")
endif()
if(STRETTO_BUILD_CLI)
  stretto_require_header(CLI/CLI.hpp libcli11-dev STRETTO_CLI11_INCLUDE)
endif()
if(STRETTO_BUILD_TESTS)
  if(CMAKE_CROSSCOMPILING)
    stretto_require_header(src/gtest-all.cc libgtest-dev STRETTO_GTEST_SOURCE
                           /usr/src/googletest/googletest)
    add_library(stretto_gtest_main STATIC ${STRETTO_GTEST_SOURCE}/src/gtest-all.cc
                                          ${STRETTO_GTEST_SOURCE}/src/gtest_main.cc)
    target_include_directories(stretto_gtest_main SYSTEM PUBLIC ${STRETTO_GTEST_SOURCE}/include
                                                         PRIVATE ${STRETTO_GTEST_SOURCE})
    target_link_libraries(stretto_gtest_main PUBLIC Threads::Threads)
    add_library(GTest::gtest_main ALIAS stretto_gtest_main)
  else()
    stretto_require(GTest libgtest-dev GLOBAL)
  endif()
  enable_testing()
endif()
if(STRETTO_BUILD_BENCH)
  stretto_require(benchmark libbenchmark-dev GLOBAL)
endif()
