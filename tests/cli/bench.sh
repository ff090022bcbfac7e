# The benchmarks print their figures as JSON.
. tests/cli/lib.sh
run 0 bench noise --json
out_is_json && out_has '"ns_per_normal": '
run 0 bench update --json
out_is_json && out_has '"ns_per_element": '
ZEST_CPU=nonsense run 2 bench noise
