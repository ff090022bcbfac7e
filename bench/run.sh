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
for compute in f32 bf16; do
    echo
    ./zest bench gemm --shape roberta-base --batch 64 --tokens 64 --compute $compute
    ./zest bench gemm --shape opt-1.3b --batch 16 --tokens 64 --compute $compute
done
echo
./zest bench attention --shape roberta-base --batch 64 --tokens 64
./zest bench step --shape roberta-base --batch 64 --lengths sst2 -k 5 --compute bf16
if [ -x build/bench/grad ]; then build/bench/grad; fi
if [ -x build/bench/optimizers ]; then build/bench/optimizers; fi
