# graphmill_lit_tests(NAME GLOB pattern...): one ctest entry NAME.case for each text case found below this folder, run
# by LLVM's lit with this folder's lit.cfg.py. A folder without cases registers nothing.
function(graphmill_lit_tests name)
  cmake_parse_arguments(ARG "" "" "GLOB" ${ARGN})
  file(GLOB_RECURSE cases CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} ${ARG_GLOB})
  list(FILTER cases EXCLUDE REGEX "(^|/)inputs/")
  if(NOT cases)
    return()
  endif()
  find_file(GRAPHMILL_LIT lit.py PATHS ${LLVM_INSTALL_PREFIX}/build/utils/lit ${LLVM_INSTALL_PREFIX}/bin
    NO_DEFAULT_PATH REQUIRED DOC "lit, of the package llvm-19-tools")
  list(SORT cases)
  foreach(case ${cases})
    string(REGEX REPLACE "\\.[^.]*$" "" short ${case})
    string(REPLACE "/" "." short ${short})
    # Each case has a scratch folder of its own: lit keeps a file of times there, and cases run side by side.
    add_test(NAME ${name}.${short} COMMAND ${Python3_EXECUTABLE} ${GRAPHMILL_LIT} -v --no-progress-bar
      --param bin=${CMAKE_RUNTIME_OUTPUT_DIRECTORY} --param llvm_bin=${LLVM_TOOLS_BINARY_DIR}
      --param scratch=${CMAKE_BINARY_DIR}/lit/${name}.${short} ${CMAKE_CURRENT_SOURCE_DIR}/${case})
    set_tests_properties(${name}.${short} PROPERTIES TIMEOUT 300 SKIP_REGULAR_EXPRESSION "UNSUPPORTED: ")
  endforeach()
endfunction()
