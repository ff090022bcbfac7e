#!/bin/sh
# Installs what is missing to build and test zest, on Debian and Ubuntu; on other systems it prints a list.
set -eu
missing=""
need() { # package, command that succeeds when it is there
    package=$1
    shift
    "$@" >/dev/null 2>&1 || missing="$missing $package"
}
need gcc command -v cc
need g++ command -v c++
need libc6-dev test -e /usr/include/stdio.h
need make command -v make
need pkg-config command -v pkg-config
need libjansson-dev pkg-config --exists jansson
need libxxhash-dev pkg-config --exists libxxhash
need libcmocka-dev pkg-config --exists cmocka
need libcurl4-openssl-dev pkg-config --exists libcurl
need zlib1g-dev pkg-config --exists zlib
need libzstd-dev pkg-config --exists libzstd
need libopenmpi-dev sh -c 'pkg-config --exists mpi-c || pkg-config --exists ompi || pkg-config --exists mpich'
need openmpi-bin command -v mpirun

# CUDA is optional and large, so it is not installed without being asked for.
if ! command -v nvcc >/dev/null 2>&1 && ! [ -x /usr/local/cuda/bin/nvcc ]; then
    echo "deps: for NVIDIA GPUs install nvcc, too: apt-get install nvidia-cuda-toolkit (Debian: from non-free), or NVIDIA's own cuda-toolkit"
fi
[ -n "$missing" ] || { echo "deps: all packages are there"; exit 0; }

if ! command -v apt-get >/dev/null 2>&1; then
    echo "deps: this is not Debian or Ubuntu. Their names of what is missing:$missing" >&2
    echo "  Fedora:  dnf install gcc gcc-c++ make pkgconf jansson-devel xxhash-devel libcmocka-devel libcurl-devel zlib-devel libzstd-devel openmpi-devel" >&2
    echo "  Arch:    pacman -S gcc make pkgconf jansson xxhash cmocka curl zlib zstd openmpi" >&2
    exit 1
fi
sudo=""
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null 2>&1 || { echo "deps: not root and no sudo; as root run: apt-get install$missing" >&2; exit 1; }
    sudo="sudo"
fi
echo "deps: installing$missing"
$sudo env DEBIAN_FRONTEND=noninteractive apt-get update -qq ||
    echo "deps: apt-get update failed, going on with the lists that are there" >&2
# shellcheck disable=SC2086
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
