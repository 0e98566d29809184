# cmake --install: the program, and a CMake package with which a program of a user's own has its whole
# command line (docs/own-model.md). The libraries are static; what they link is found again where
# the package is used, so that the folder can be moved. A shared library would need
# position-independent kernels, only for programs that link it once.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)
set(ATOLL_PACKAGE_FOLDER ${CMAKE_INSTALL_LIBDIR}/cmake/Atoll)

# atoll_install_library(NAME): atoll_NAME becomes Atoll::NAME.
function(atoll_install_library name)
  set_target_properties(atoll_${name} PROPERTIES EXPORT_NAME ${name})
  install(TARGETS atoll_${name} EXPORT AtollTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/atoll)
endfunction()

# atoll_install(): everything else; called where all targets are known.
function(atoll_install)
  install(TARGETS atoll RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  # Headers name each other by their paths from the repository's root.
  target_include_directories(atoll_options INTERFACE
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/atoll>)
  target_compile_features(atoll_options INTERFACE $<INSTALL_INTERFACE:cxx_std_20>)
  set_target_properties(atoll_options PROPERTIES EXPORT_NAME options)
  install(TARGETS atoll_options EXPORT AtollTargets)
  set_target_properties(atoll_commands PROPERTIES EXPORT_NAME engine)
  install(EXPORT AtollTargets NAMESPACE Atoll:: DESTINATION ${ATOLL_PACKAGE_FOLDER})
  set(header_folder ${CMAKE_INSTALL_INCLUDEDIR}/atoll)
  set(include "${PROJECT_SOURCE_DIR}/cmake/install_headers.cmake")
  install(CODE "
    set(source_folder \"${PROJECT_SOURCE_DIR}\")
    set(header_folder \"${header_folder}\")
    include(\"${include}\")")
  configure_package_config_file(
    ${PROJECT_SOURCE_DIR}/cmake/AtollConfig.cmake.in ${PROJECT_BINARY_DIR}/AtollConfig.cmake
    INSTALL_DESTINATION ${ATOLL_PACKAGE_FOLDER})
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/AtollConfigVersion.cmake
    COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/AtollConfig.cmake ${PROJECT_BINARY_DIR}/AtollConfigVersion.cmake
                ${PROJECT_SOURCE_DIR}/cmake/dependencies.cmake
          DESTINATION ${ATOLL_PACKAGE_FOLDER})
endfunction()
