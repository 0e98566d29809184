# Every third-party library, found once. All come from the distribution's packages.
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(MPI REQUIRED COMPONENTS C)
# mpi.h in a C++ file would otherwise pull in the removed C++ bindings, which are not linked.
target_compile_definitions(MPI::MPI_C INTERFACE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(tomlplusplus REQUIRED)
# Headers only (Boost.Graph).
find_package(Boost 1.74 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(LIBZIP REQUIRED IMPORTED_TARGET libzip)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc)

# Neither METIS nor Debian's OpenBLAS alternatives ship a CMake package that names their headers.
find_path(METIS_INCLUDE metis.h REQUIRED)
find_library(METIS_LIBRARY metis REQUIRED)
add_library(metis::metis INTERFACE IMPORTED)
target_include_directories(metis::metis SYSTEM INTERFACE ${METIS_INCLUDE})
target_link_libraries(metis::metis INTERFACE ${METIS_LIBRARY})

find_path(OPENBLAS_INCLUDE cblas.h REQUIRED PATH_SUFFIXES openblas-openmp
          PATHS /usr/include/${CMAKE_LIBRARY_ARCHITECTURE} NO_DEFAULT_PATH)
find_library(OPENBLAS_LIBRARY openblas REQUIRED PATH_SUFFIXES openblas-openmp
             PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE} NO_DEFAULT_PATH)
add_library(openblas::openblas INTERFACE IMPORTED)
target_include_directories(openblas::openblas SYSTEM INTERFACE ${OPENBLAS_INCLUDE})
target_link_libraries(openblas::openblas INTERFACE ${OPENBLAS_LIBRARY})
