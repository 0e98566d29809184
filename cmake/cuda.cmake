# Finds the CUDA toolkit. Sets ATOLL_HAVE_CUDA; without a toolkit only the CPU part is built.
# ATOLL_CUDA: auto (build the cuda backend where a toolkit is found), on (fail without one), off.
set(ATOLL_CUDA auto CACHE STRING "the cuda backend: auto, on or off")
set_property(CACHE ATOLL_CUDA PROPERTY STRINGS auto on off)
if(NOT ATOLL_CUDA MATCHES "^(auto|on|off)$")
  message(FATAL_ERROR "ATOLL_CUDA is '${ATOLL_CUDA}'; allowed are auto, on, off")
endif()

option(ATOLL_PATHS_OF_BUILD
       "programs name folders of this machine: those of CUDA's libraries and of the kernels' sources" ON)

# skip_cuda(REASON): goes on without CUDA, or stops where it was asked for.
macro(skip_cuda reason)
  if(ATOLL_CUDA STREQUAL "on")
    message(FATAL_ERROR "ATOLL_CUDA is on, but ${reason}")
  endif()
  message(STATUS "CUDA not found: building the CPU part only (${reason})")
endmacro()

# Compute capabilities of this machine's devices, as in 80;90; nothing if there is none.
function(capabilities_here result)
  set(capabilities "")
  find_program(ATOLL_NVIDIA_SMI nvidia-smi DOC "lists this machine's devices")
  if(ATOLL_NVIDIA_SMI)
    execute_process(COMMAND ${ATOLL_NVIDIA_SMI} --query-gpu=compute_cap --format=csv,noheader
                    OUTPUT_VARIABLE lines RESULT_VARIABLE failed ERROR_QUIET)
    if(failed)
      set(lines "")
    endif()
    string(REGEX MATCHALL "[0-9]+\\.[0-9]" capabilities "${lines}")
    list(TRANSFORM capabilities REPLACE "\\." "")
    list(REMOVE_DUPLICATES capabilities)
    list(SORT capabilities COMPARE NATURAL)
  endif()
  set(${result} "${capabilities}" PARENT_SCOPE)
endfunction()

# Enables the language CUDA, and finds the toolkit's libraries. Without a device here, machine code
# for A100 and H100 (RTX 30 and 40, L40 and A40 run the first), and PTX that later devices translate.
macro(enable_cuda)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    capabilities_here(found_capabilities)
    if(NOT found_capabilities)
      set(found_capabilities "80-real;90")
    endif()
    set(CMAKE_CUDA_ARCHITECTURES "${found_capabilities}"
        CACHE STRING "compute capabilities to compile for")
  endif()
  if(NOT DEFINED CMAKE_CUDA_COMPILER_LAUNCHER AND DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CUDA_COMPILER_LAUNCHER "${CMAKE_CXX_COMPILER_LAUNCHER}")  # ccache
  endif()
  enable_language(CUDA)
  # CMake 3.25 knows no C++20 for nvcc, though nvcc does.
  if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION
     OR CMAKE_CUDA20_STANDARD_COMPILE_OPTION STREQUAL "")
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    list(APPEND CMAKE_CUDA_COMPILE_FEATURES cuda_std_20)
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  set(CMAKE_CUDA_EXTENSIONS OFF)
  find_package(CUDAToolkit REQUIRED)
endmacro()

set(ATOLL_HAVE_CUDA FALSE)
if(ATOLL_CUDA STREQUAL "off")
  message(STATUS "CUDA is off: building the CPU part only")
else()
  find_program(ATOLL_NVCC nvcc HINTS ENV CUDACXX ENV CUDA_HOME PATHS /usr/local/cuda
               PATH_SUFFIXES bin DOC "the CUDA compiler")
  if(NOT ATOLL_NVCC)
    skip_cuda("there is no nvcc in PATH, CUDA_HOME or /usr/local/cuda")
  else()
    if(NOT DEFINED CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
      set(ENV{CUDACXX} ${ATOLL_NVCC})
    endif()
    include(CheckLanguage)
    check_language(CUDA)
    if(NOT CMAKE_CUDA_COMPILER)
      skip_cuda("${ATOLL_NVCC} does not work with this C++ compiler")
    else()
      enable_cuda()
      if(CUDAToolkit_VERSION VERSION_LESS 12.4)
        skip_cuda("the toolkit of ${ATOLL_NVCC} is ${CUDAToolkit_VERSION}; 12.4 or later is needed")
      elseif(TARGET CUDA::cublas AND TARGET CUDA::cublasLt AND TARGET CUDA::cusparse)
        set(ATOLL_HAVE_CUDA TRUE)
        message(STATUS "CUDA ${CUDAToolkit_VERSION} for compute capabilities ${CMAKE_CUDA_ARCHITECTURES}")
      else()
        skip_cuda("the toolkit of ${ATOLL_NVCC} has no cuBLAS or cuSPARSE")
      endif()
    endif()
  endif()
endif()
