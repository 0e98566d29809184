# Options that every target of the project shares, and the two ways a target is declared.
add_library(atoll_options INTERFACE)
target_include_directories(atoll_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(atoll_options INTERFACE -Wall -Wextra -Wconversion -Wno-sign-conversion
                       -Wshadow -Wno-unknown-pragmas)
if(ATOLL_SANITIZE)
  target_compile_options(atoll_options INTERFACE -fsanitize=${ATOLL_SANITIZE} -fno-omit-frame-pointer
                         -fno-sanitize-recover=all)
  target_link_options(atoll_options INTERFACE -fsanitize=${ATOLL_SANITIZE})
endif()

# atoll_library(NAME SOURCES file... [LINK target...]): one static library per folder.
function(atoll_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_library(atoll_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(atoll_${name} PUBLIC atoll_options ${ARG_LINK})
endfunction()
