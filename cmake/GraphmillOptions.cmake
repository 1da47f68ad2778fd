# Warnings, sanitizers, linker and cache for every target of ours.
# The compiler that CI has. A newer one knows warnings that this code has not met, and those must not stop a user's build.
set(GRAPHMILL_WERROR_DEFAULT OFF)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  set(GRAPHMILL_WERROR_DEFAULT ON)
endif()
option(GRAPHMILL_WERROR "treat warnings as errors" ${GRAPHMILL_WERROR_DEFAULT})
option(GRAPHMILL_CUDA "use the CUDA toolkit's headers when they are there" ON)
option(GRAPHMILL_ASSERTIONS "keep assert() in every build type and check the standard library's preconditions" OFF)
set(GRAPHMILL_SANITIZE "" CACHE STRING "sanitizers, as -fsanitize takes them (address,undefined or thread)")

add_library(graphmill_options INTERFACE)
target_compile_options(graphmill_options INTERFACE
  -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wno-missing-field-initializers
  # GCC 12 warns wrongly about std::expected of a scalar and about std::string concatenation.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized> $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  -ffp-contract=off  # an fma is written as one, never made by the compiler: results must not depend on its flags
  $<$<BOOL:${GRAPHMILL_WERROR}>:-Werror>)
target_include_directories(graphmill_options INTERFACE ${CMAKE_SOURCE_DIR})

# Everything that is hot is generated code or codegen/tile/vm_loops; -O2 builds a fifth faster than -O3.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

if(GRAPHMILL_ASSERTIONS)
  add_compile_options(-UNDEBUG)  # options come after the build type's flags, which define it
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
endif()

if(GRAPHMILL_SANITIZE)
  add_compile_options(-fsanitize=${GRAPHMILL_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${GRAPHMILL_SANITIZE})
endif()

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # ccache keeps what was compiled with a precompiled header only if it may trust the header's own digest; and
  # other checkouts share what it keeps if paths below this one are told apart from it.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
    CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} ${CCACHE})
  add_compile_options($<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
endif()

find_program(MOLD mold)
if(MOLD)
  add_link_options(-fuse-ld=mold)
endif()
