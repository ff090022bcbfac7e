#!/bin/sh
# Installs what is missing to build and test zest. Debian and Ubuntu; for other systems it prints the list.
set -eu
packages="gcc g++ make pkg-config libc6-dev libjansson-dev libxxhash-dev libpcre2-dev libcmocka-dev libcurl4-openssl-dev"

if ! command -v apt-get >/dev/null 2>&1 || ! command -v dpkg-query >/dev/null 2>&1; then
    echo "This is not Debian or Ubuntu; please install with your package manager:"
    echo "  a C11 compiler with OpenMP, a C++ compiler, make, pkg-config, jansson, xxHash, PCRE2, cmocka, libcurl"
    echo "  Fedora:  dnf install gcc gcc-c++ make pkgconf jansson-devel xxhash-devel pcre2-devel libcmocka-devel libcurl-devel"
    echo "  Arch:    pacman -S gcc make pkgconf jansson xxhash pcre2 cmocka curl"
    exit 0
fi

missing=""
for package in $packages; do
    state=$(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null || true)
    case "$state" in
        ii*) ;;
        *) missing="$missing $package" ;;
    esac
done
# pkgconf stands in for pkg-config on newer systems
case "$missing" in *" pkg-config"*) command -v pkg-config >/dev/null 2>&1 && missing=$(echo "$missing" | sed 's/ pkg-config//') ;; esac
[ -n "$missing" ] || { echo "deps: all packages are there"; exit 0; }

sudo=""
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null 2>&1 || { echo "deps: not root and no sudo; as root run: apt-get install$missing" >&2; exit 1; }
    sudo="sudo"
fi
echo "deps: installing$missing"
$sudo env DEBIAN_FRONTEND=noninteractive apt-get update -qq
# shellcheck disable=SC2086
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
