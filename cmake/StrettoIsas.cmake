# For which instruction sets the kernels are compiled.
#   all      every one; the best that a processor has is taken at run time
#   native   only the best of this machine: a third of the compile time, and nowhere else to be run
#   avx2     only this one, as `native` does on a machine that has no better
set(STRETTO_ISAS all CACHE STRING "Instruction sets of the kernels: all, native or avx2")

# stretto_select_isas(TARGET): to be called once TARGET, the kernels, exists.
function(stretto_select_isas target)
  if(STRETTO_ISAS STREQUAL all)
    return()
  elseif(NOT STRETTO_ISAS MATCHES "^(native|avx2)$")
    message(FATAL_ERROR "STRETTO_ISAS: expected all, native or avx2, got '${STRETTO_ISAS}'")
  elseif(STRETTO_BUILD_TESTS)
    message(FATAL_ERROR "STRETTO_ISAS=${STRETTO_ISAS} leaves out what the tests compare: add "
                        "-DSTRETTO_BUILD_TESTS=OFF")
  endif()
  # The same questions as detect_isa() in base/cpu.cc.
  try_run(code compiled ${CMAKE_BINARY_DIR}/isa SOURCES ${CMAKE_SOURCE_DIR}/cmake/native_isa.cc)
  if(NOT compiled OR code LESS 1)
    return()  # portable is what every file is compiled for anyway
  elseif(code EQUAL 1 OR STRETTO_ISAS STREQUAL avx2)
    set(isa kAvx2)
    set(march haswell)
  else()
    set(isa kAvx512)
    set(march skylake-avx512)
  endif()
  message(STATUS "Kernels for one instruction set only: ${march}")
  # Kernels need no AES, which Highway otherwise asks for in AVX2 and GCC's haswell lacks.
  target_compile_definitions(${target} PRIVATE HWY_COMPILE_ONLY_STATIC HWY_DISABLE_PCLMUL_AES)
  target_compile_options(${target} PRIVATE -march=${march} -mtune=generic)
  set_source_files_properties(${CMAKE_SOURCE_DIR}/src/stretto/base/cpu.cc PROPERTIES
                              COMPILE_DEFINITIONS STRETTO_ONLY_ISA=${isa})
endfunction()
