# Sourced by tools/build, tools/test, tools/demo and .ci/run: packages, configuration and build in one place.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$root" || exit 1

note() { printf '== %s\n' "$*"; }
die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

wanted_packages() { sed 's/#.*//' tools/dev/packages.txt | xargs -n1; }

missing_packages() {
  local package
  for package in $(wanted_packages); do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || echo "$package"
  done
}

# Installs only what is missing, so that a machine which has everything needs neither root nor a network.
install_packages() {
  if [ "${GRAPHMILL_NO_INSTALL:-}" = 1 ]; then
    note "GRAPHMILL_NO_INSTALL=1: packages are taken as they are"
    return
  fi
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    die "this script installs packages with apt, which is not here. Install what tools/dev/packages.txt lists" \
      "by your system's means, then set GRAPHMILL_NO_INSTALL=1 and run this again."
  fi
  local missing
  mapfile -t missing < <(missing_packages)
  if [ ${#missing[@]} -eq 0 ]; then
    note "all packages are installed"
    return
  fi
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null ||
      die "packages are missing and neither root nor sudo is there. As root: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  note "installing ${#missing[@]} packages: ${missing[*]}"
  "${as_root[@]}" apt-get update -qq || note "apt-get update failed; trying with the lists that are there"

  local unknown=() package
  for package in "${missing[@]}"; do
    apt-cache show "$package" >/dev/null 2>&1 || unknown+=("$package")
  done
  if [ ${#unknown[@]} -ne 0 ]; then
    printf 'error: apt knows no package named: %s\n' "${unknown[*]}" >&2
    if grep -q '^ID=ubuntu' /etc/os-release 2>/dev/null; then
      die "On Ubuntu they are in 'universe' and 'noble-updates'. Switch universe on and run this again:" \
        "sudo apt-get install software-properties-common && sudo add-apt-repository universe"
    fi
    die "Debian 12 and Ubuntu 24.04 have them all; check /etc/apt/sources.list (main, and the security updates)."
  fi
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null ||
    die "apt-get could not install them; its own words stand above"
}

# What a user runs; the tests are built by tools/test. (Read by the scripts that source this file.)
# shellcheck disable=SC2034
programs=(graphmill graphmill-run)

# build_preset NAME [TARGET...]: configures and builds build/NAME.
build_preset() {
  local preset=$1
  shift
  note "configuring build/$preset"
  cmake --preset "$preset" ||
    die "no build files for preset '$preset'; 'cmake --list-presets' names the presets"
  note "building build/$preset with $(nproc) jobs"
  ninja -C "build/$preset" -j"$(nproc)" "$@" || die "build/$preset does not build"
}
