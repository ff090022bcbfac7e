# For which GPUs make builds: those of this machine, else all that are common and known to nvcc; what cannot be is
# refused. nvcc and nvidia-smi are stubs here, and nothing is compiled.
set -eu
unset MAKEFLAGS MAKEOVERRIDES MAKELEVEL CUDA_ARCH || :
work=$(mktemp -d "${TMPDIR:-/tmp}"/zest-arch-XXXXXX)
trap 'rm -rf "$work"' EXIT
printf '#!/bin/sh\ncase "$*" in --version) echo "release $(cat %s/release), V1" ;; --list-gpu-code) cat %s/known ;; esac\n' "$work" "$work" >"$work/nvcc"
printf '#!/bin/sh\n[ ! -s %s/gpus ] || cat %s/gpus\n' "$work" "$work" >"$work/nvidia-smi"
chmod +x "$work/nvcc" "$work/nvidia-smi"
nvcc() { # release, compute capabilities without points
    echo "$1" >"$work/release" && shift && printf 'sm_%s\n' "$@" >"$work/known"
}
found() { # capabilities of the machine's GPUs in one word, separated by commas; arguments of make
    echo "$1" | tr ',' '\n' | sed '/^$/d' >"$work/gpus" && shift
    PATH="$work:$PATH" make --no-print-directory found NVCC="$work/nvcc" CUDA=on BUILD="$work/build" "$@" >"$work/log" 2>&1
}
builds_for() { # what is expected, then as for found
    wanted=$1 && shift
    found "$@" && grep -qxF "  cuda      nvcc $(cat "$work/release"): --device cuda, kernels for $wanted" "$work/log" && return
    echo "FAILED: nvcc $(cat "$work/release"), GPUs '$1': expected kernels for $wanted" >&2
    cat "$work/log" >&2
    exit 1
}
refuses() { # part of the message, then as for found
    said=$1 && shift
    if ! found "$@" && grep -qF "$said" "$work/log"; then return; fi
    echo "FAILED: 'make $2' should be refused with: $said" >&2
    cat "$work/log" >&2
    exit 1
}

nvcc 13.0 75 80 86 87 88 89 90 100 103 110 120 121
builds_for "sm_80 sm_90 compute_90 sm_100 sm_120" ""
builds_for "sm_86 compute_86" 8.6
builds_for "sm_89 compute_89" 8.9,8.9
builds_for "sm_86 sm_90 compute_90" 9.0,8.6
builds_for "sm_120 compute_120" 12.0,7.5
builds_for "sm_80 sm_90 compute_90 sm_100 sm_120" 7.5  # too old for zest: as if there were none
builds_for "sm_80 sm_90 compute_90 sm_100 sm_120" 13.0 # newer than this nvcc: PTX
builds_for "sm_80 sm_90 compute_90" "" CUDA_ARCH="sm_80 sm_90"
builds_for "sm_86 compute_86" 9.0 CUDA_ARCH=sm_86
refuses "sm_75 will not do" "" CUDA_ARCH=sm_75
refuses "sm_99 will not do" "" CUDA_ARCH="sm_80 sm_99"
# Debian 12's and Ubuntu 22.04's own, of which the second knows no 8.9 and no 9.0
nvcc 11.8 50 60 70 75 80 86 87 89 90
builds_for "sm_80 sm_90 compute_90" ""
nvcc 11.5 50 60 70 75 80 86 87
builds_for "sm_80 compute_80" ""
builds_for "sm_80 compute_80" 8.9
