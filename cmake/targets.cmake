# Options that every target of the project shares, and how a library is declared. Both are installed
# (install.cmake): BUILD_INTERFACE is what programs that link an installed one don't get.
add_library(atoll_options INTERFACE)
target_include_directories(atoll_options INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
set(ATOLL_WARNINGS -Wall -Wextra -Wconversion -Wno-sign-conversion -Wshadow -Wno-unknown-pragmas)
target_compile_options(atoll_options INTERFACE
                       "$<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:${ATOLL_WARNINGS}>>")
# nvcc warns by itself; what it generates for the host would set off more than -Wall.
target_compile_options(atoll_options INTERFACE
                       "$<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall>>")
# GCC collects its garbage above 128 MiB, again and again: a tenth of its time where several sources
# are compiled as one, for a third of memory.
set(ATOLL_COMPILER_HEAP "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=500000>")
target_compile_options(atoll_options INTERFACE $<BUILD_INTERFACE:${ATOLL_COMPILER_HEAP}>)
if(ATOLL_SANITIZE)
  set(ATOLL_SANITIZE_OPTIONS -fsanitize=${ATOLL_SANITIZE} -fno-omit-frame-pointer
      -fno-sanitize-recover=all)
  target_compile_options(atoll_options INTERFACE
                         "$<$<COMPILE_LANGUAGE:CXX>:${ATOLL_SANITIZE_OPTIONS}>")
  target_link_options(atoll_options INTERFACE -fsanitize=${ATOLL_SANITIZE})
endif()

# atoll_library(NAME SOURCES file... [LINK target...]): one static library per folder.
function(atoll_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_library(atoll_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(atoll_${name} PUBLIC atoll_options ${ARG_LINK})
  atoll_install_library(${name})
endfunction()
