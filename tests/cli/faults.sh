# The crash harness in short: some file operations of some runs kill the process, or fail; then the run is resumed, and
# must have the bits of one that nothing disturbed. `make faults` goes through all of them.
[ -n "${SANITIZED:-}" ] && exit 77 # the sanitizers want to be loaded first
FAULTS="kill ENOSPC EIO short" SCENARIOS="${SCENARIOS:-zeroth first resumed-first minimize sweep}" exec sh tests/faults/run.sh short 1
