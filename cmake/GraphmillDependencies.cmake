# Third parties: find_package where Debian ships a config, pkg-config imported targets elsewhere.
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(Boost REQUIRED)  # headers: Boost.Graph
find_package(GTest REQUIRED)
find_package(Threads REQUIRED)
include(GoogleTest)

find_package(PkgConfig REQUIRED)
# libzip's CMake config needs the zipcmp program and utf8proc ships none, so both come through pkg-config.
pkg_check_modules(LIBZIP REQUIRED IMPORTED_TARGET libzip)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)

# Debian puts LLVM under a versioned prefix.
list(APPEND CMAKE_PREFIX_PATH /usr/lib/llvm-19)
find_package(LLVM 19.1 REQUIRED CONFIG)
find_package(LLD REQUIRED CONFIG)
