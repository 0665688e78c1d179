#!/bin/sh
# Everything a build needs: Debian packages (installed when root, else named), a Rust toolchain (checked), Python packages
# in a virtual environment under the per-user cache. Prints one line for what is wrong. usage: setup.sh CACHE_DIR
set -eu
cache=$1
root=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)

say() { printf '%s\n' "$*" >&2; }

packages="cmake ninja-build pkg-config gcc libnghttp2-dev libuv1-dev libssl-dev zlib1g-dev libprotobuf-c-dev protobuf-compiler
protobuf-c-compiler libcmocka-dev libcjson-dev libyaml-dev libsqlite3-dev liblz4-dev libzstd-dev libbz2-dev python3-venv maven postgresql"
missing=""
if command -v dpkg-query >/dev/null 2>&1; then
  for package in $packages; do
    case $package in
      cmake) command -v cmake >/dev/null 2>&1 && continue ;;
      ninja-build) command -v ninja >/dev/null 2>&1 && continue ;;
      gcc) command -v cc >/dev/null 2>&1 && continue ;;
      maven) command -v mvn >/dev/null 2>&1 && continue ;;
      postgresql) ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 && continue ;; # for tests of the job store
      python3-venv) python3 -c 'import ensurepip, venv' >/dev/null 2>&1 && continue ;;
    esac
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing="$missing $package"
  done
fi
if [ -n "$missing" ]; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    say "installing Debian packages:$missing"
    apt-get update -qq >/dev/null
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $missing >/dev/null
  else
    say "please install these Debian packages first: apt-get install$missing"
    exit 1
  fi
fi

if ! command -v cargo >/dev/null 2>&1; then
  say "the engine needs a Rust toolchain, 1.94 or newer: install rustup, then 'rustup toolchain install stable'"
  exit 1
fi
version=$(rustc --version | sed 's/^rustc \([0-9]*\)\.\([0-9]*\).*/\1 \2/')
set -- $version
if [ "$1" -lt 1 ] || { [ "$1" -eq 1 ] && [ "$2" -lt 94 ]; }; then
  say "the engine needs Rust 1.94 or newer, this is 1.$2: run 'rustup update stable'"
  exit 1
fi

venv=$cache/venv
if ! cmp -s "$root/tests/requirements.txt" "$venv/.requirements"; then
  say "installing Python packages into $venv"
  mkdir -p "$cache"
  [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
  "$venv/bin/pip" install -q --disable-pip-version-check -r "$root/tests/requirements.txt"
  cp "$root/tests/requirements.txt" "$venv/.requirements"
fi
