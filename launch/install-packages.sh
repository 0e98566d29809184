#!/usr/bin/env bash
# Installs the Debian packages that building Atoll needs, if any is missing; --tests adds those of
# the tests, --python those of `pip install .`. As root or with sudo; otherwise names what is missing
# and exits with code 2.
# ATOLL_SKIP_PACKAGES=1 skips this on systems where the libraries come from elsewhere.
set -euo pipefail

packages=(g++ cmake ninja-build make ccache git ca-certificates
  libopenmpi-dev openmpi-bin libmetis-dev libdnnl-dev libhwloc-dev
  libcli11-dev libspdlog-dev libfmt-dev nlohmann-json3-dev libtomlplusplus-dev
  zlib1g-dev libzip-dev libxxhash-dev libboost-dev pkg-config)
test_packages=(libgtest-dev libgmock-dev libbenchmark-dev libboost-context-dev python3 python3-numpy xz-utils
  clang-format iproute2)

case "${1:-}" in
  "") ;;
  --tests) packages+=("${test_packages[@]}") ;;
  --python) packages+=(python3 python3-dev python3-venv) ;;
  *)
    echo "install-packages.sh: unknown option '$1'; allowed are --tests and --python" >&2
    exit 2
    ;;
esac

if [ "${ATOLL_SKIP_PACKAGES:-0}" = 1 ]; then
  echo "Packages: skipped (ATOLL_SKIP_PACKAGES=1)"
  exit 0
fi
if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "This is no Debian or Ubuntu system. Install what corresponds to these packages:" >&2
  echo "  ${packages[*]}" >&2
  echo "then run again with ATOLL_SKIP_PACKAGES=1." >&2
  exit 2
fi

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} = 0 ]; then
  echo "Packages: all ${#packages[@]} are installed"
  exit 0
fi

as_root=()
if [ "$(id -u)" != 0 ]; then
  if ! command -v sudo >/dev/null || ! { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
    echo "${#missing[@]} packages are missing, and this user is not root and has no sudo:" >&2
    echo "  apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 2
  fi
  as_root=(sudo)
fi
echo "Installing ${#missing[@]} packages: ${missing[*]}"
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -q --no-install-recommends "${missing[@]}"
