#!/bin/sh
# Every benchmark once, with the machine on top. Figures worth keeping go to bench/RESULTS.md with this heading.
set -eu
echo "machine: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores"
echo "compiler: $(${CC:-cc} --version | head -n 1)"
echo "zest: $(./zest --version)"
echo
./zest bench noise
./zest bench update --threads 1
./zest bench update
