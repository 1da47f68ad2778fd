# Precompiled headers take half of a clean build's time away. One for each set of flags: the libraries', the programs'
# (tools/) and the unit tests'.
set(GRAPHMILL_COMMON_HEADERS <algorithm> <cstdint> <cstring> <expected> <filesystem> <functional> <map> <memory> <numeric>
  <optional> <ranges> <set> <span> <string> <string_view> <unordered_map> <utility> <variant> <vector> <fmt/format.h>)
set(GRAPHMILL_EMPTY_SOURCE ${CMAKE_BINARY_DIR}/empty.cpp)
file(CONFIGURE OUTPUT ${GRAPHMILL_EMPTY_SOURCE} CONTENT "")

# What is long and cold is not worth optimizing: programs around the libraries, and tests.
set(GRAPHMILL_PROGRAM_OPTIONS $<$<CONFIG:Release>:-O1>)
set(GRAPHMILL_TEST_OPTIONS $<$<CONFIG:Release>:-O0>)

# graphmill_precompile(NAME OPTIONS option... LINK lib... HEADERS header...): a precompiled header that targets with these
# options take with REUSE_FROM NAME.
function(graphmill_precompile name)
  cmake_parse_arguments(ARG "" "" "OPTIONS;LINK;HEADERS" ${ARGN})
  add_library(${name} OBJECT ${GRAPHMILL_EMPTY_SOURCE})
  target_compile_options(${name} PRIVATE ${ARG_OPTIONS})
  target_link_libraries(${name} PRIVATE graphmill_options fmt::fmt ${ARG_LINK})
  target_precompile_headers(${name} PRIVATE ${GRAPHMILL_COMMON_HEADERS} ${ARG_HEADERS})
endfunction()

graphmill_precompile(gm_pch)
graphmill_precompile(gm_test_pch OPTIONS ${GRAPHMILL_TEST_OPTIONS} LINK GTest::gtest GTest::gmock
  HEADERS <gtest/gtest.h> <gmock/gmock.h>)

# graphmill_library(NAME [DIRS dir...] LINK lib...): all *.cpp of the listed folders (this one by default) as one static
# library target gm_NAME.
function(graphmill_library name)
  cmake_parse_arguments(ARG "" "" "DIRS;LINK" ${ARGN})
  if(NOT ARG_DIRS)
    set(ARG_DIRS .)
  endif()
  set(sources)
  foreach(dir ${ARG_DIRS})
    file(GLOB found CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${dir}/*.cpp)
    list(APPEND sources ${found})
  endforeach()
  list(SORT sources)
  if(sources)
    add_library(gm_${name} STATIC ${sources})
    target_link_libraries(gm_${name} PUBLIC graphmill_options ${ARG_LINK})
    target_precompile_headers(gm_${name} REUSE_FROM gm_pch)
  else()
    add_library(gm_${name} INTERFACE)
    target_link_libraries(gm_${name} INTERFACE graphmill_options ${ARG_LINK})
  endif()
endfunction()

# graphmill_unit_test(NAME LINK lib...): all *.cpp of tests/unit/NAME as one GoogleTest program unit_NAME.
function(graphmill_unit_test name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cpp)
  if(NOT sources)
    return()
  endif()
  add_executable(unit_${name} ${sources})
  target_link_libraries(unit_${name} PRIVATE ${ARG_LINK} GTest::gtest GTest::gmock GTest::gtest_main)
  target_compile_options(unit_${name} PRIVATE ${GRAPHMILL_TEST_OPTIONS})
  target_precompile_headers(unit_${name} REUSE_FROM gm_test_pch)
  target_compile_definitions(unit_${name} PRIVATE GRAPHMILL_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  gtest_discover_tests(unit_${name} TEST_PREFIX "${name}." DISCOVERY_MODE PRE_TEST PROPERTIES TIMEOUT 600)
endfunction()
