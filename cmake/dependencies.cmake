# Every third-party library, found once. All come from the distribution's packages.
find_package(OpenMP REQUIRED COMPONENTS CXX)
# ATOLL_MPI: link (with the MPI library of this machine), or runtime (that of the machine where the
# program runs, found there; docs/transport.md).
set(ATOLL_MPI link CACHE STRING "the MPI library: link or runtime")
set_property(CACHE ATOLL_MPI PROPERTY STRINGS link runtime)
if(NOT ATOLL_MPI MATCHES "^(link|runtime)$")
  message(FATAL_ERROR "ATOLL_MPI is '${ATOLL_MPI}'; allowed are link, runtime")
endif()
if(ATOLL_MPI STREQUAL "link")
  find_package(MPI REQUIRED COMPONENTS C)
  # mpi.h in a C++ file would otherwise pull in the removed C++ bindings, which are not linked.
  target_compile_definitions(MPI::MPI_C INTERFACE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
endif()
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
# The library of some distributions asks for a newer C++ library than the program itself.
option(ATOLL_SPDLOG_INSIDE "compile spdlog in instead of linking its library" OFF)
set(ATOLL_SPDLOG spdlog::spdlog)
if(ATOLL_SPDLOG_INSIDE)
  set(ATOLL_SPDLOG spdlog::spdlog_header_only)
endif()
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(tomlplusplus REQUIRED)
# Headers only (Boost.Graph).
find_package(Boost 1.74 REQUIRED)
find_package(PkgConfig REQUIRED)
# Archives of .npz, and checksums.
pkg_check_modules(LIBZIP REQUIRED IMPORTED_TARGET libzip)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc)

# METIS ships no CMake package, and that of oneDNN asks for OpenCL, which nothing here uses.
find_path(METIS_INCLUDE metis.h REQUIRED)
find_library(METIS_LIBRARY metis REQUIRED)
add_library(metis::metis INTERFACE IMPORTED)
target_include_directories(metis::metis SYSTEM INTERFACE ${METIS_INCLUDE})
target_link_libraries(metis::metis INTERFACE ${METIS_LIBRARY})

find_path(DNNL_INCLUDE dnnl.hpp REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
add_library(dnnl::dnnl INTERFACE IMPORTED)
target_include_directories(dnnl::dnnl SYSTEM INTERFACE ${DNNL_INCLUDE})
target_link_libraries(dnnl::dnnl INTERFACE ${DNNL_LIBRARY})
