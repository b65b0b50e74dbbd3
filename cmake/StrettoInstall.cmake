# What `cmake --install` lays out: the library with its public headers, the C library, the command,
# and the package files behind find_package(stretto). The Python wheel installs
# none of it: it has its own component, see python/CMakeLists.txt.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# The C face as a shared library: only stretto_* symbols are visible, so a C program needs neither a
# C++ compiler nor our other dependencies' headers.
function(stretto_c_library)
  add_library(stretto_c SHARED ${CMAKE_SOURCE_DIR}/src/stretto/stretto_c.cc
                               ${CMAKE_SOURCE_DIR}/src/stretto/stretto_c_comm.cc)
  add_library(stretto::stretto_c ALIAS stretto_c)
  set_target_properties(stretto_c PROPERTIES VERSION ${PROJECT_VERSION}
                        SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  target_link_libraries(stretto_c PRIVATE stretto $<BUILD_INTERFACE:stretto_options>)
  target_include_directories(stretto_c PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/src>
                             $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endfunction()

function(stretto_install)
  set(headers stretto.h ops.h stretto_c.h base/error.h tensor/dtype.h tensor/shape.h
              tensor/any_value.h tensor/shape_range.h tensor/tensor.h)
  if(STRETTO_BUILD_MEDIA)
    list(APPEND headers data.h data/dataset.h data/disk_cache.h data/fetcher.h data/loader.h
                        data/lookahead.h data/order.h data/remote.h data/remote_stats.h base/cpu.h
                        base/philox.h
                        media/colour.h
                        media/crop.h media/fuse.h media/operators/operator.h media/picture.h
                        media/random.h media/weights.h)
  endif()
  foreach(header ${headers})
    get_filename_component(folder stretto/${header} DIRECTORY)
    install(FILES ${CMAKE_SOURCE_DIR}/src/stretto/${header}
            DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder})
  endforeach()
  install(TARGETS stretto stretto_c EXPORT strettoTargets
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT strettoTargets NAMESPACE stretto::
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/stretto)
  configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/strettoConfig.cmake.in
    ${CMAKE_BINARY_DIR}/strettoConfig.cmake
    INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/stretto)
  write_basic_package_version_file(${CMAKE_BINARY_DIR}/strettoConfigVersion.cmake
                                   COMPATIBILITY SameMinorVersion)
  install(FILES ${CMAKE_BINARY_DIR}/strettoConfig.cmake
          ${CMAKE_BINARY_DIR}/strettoConfigVersion.cmake
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/stretto)
  install(FILES ${CMAKE_SOURCE_DIR}/LICENSE ${CMAKE_SOURCE_DIR}/NOTICE
          DESTINATION ${CMAKE_INSTALL_DOCDIR})
  if(TARGET stretto_cli)
    install(TARGETS stretto_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endfunction()
