# zest theory: what does not exist is named, and JSON has what the table shows.
. tests/cli/lib.sh

# A measured top eigenvalue and the paper's rho: 1/(0.002^2 * 1884) = 132.7, so t = 300 has no Gaussian F_t.
measured="--eigenvalues 1884 --dim 41000000 --rho 0.002 --tilts 0,20,100,300,1000"
run 0 theory $measured
out_has 'Gaussian F_t and R_t are finite for t < 132.696; they do not exist at t = 300, 1000'
run 0 theory $measured --json
out_is_json
[ "$(grep -o '"gaussian_finite": false, "gaussian": null' "$work/out" | wc -l)" -eq 2 ] || fail "two rows of JSON have no Gaussian R_t"
[ "$(grep -o '"gaussian_finite": true' "$work/out" | wc -l)" -eq 3 ] || fail "three rows of JSON have one"
out_has '"gaussian_limit": 132.696'

# Without positive curvature every t is allowed; below the limit nothing is missing.
run 0 theory --eigenvalues=-1,-2 --tilts 0,1e9
out_has 'Gaussian F_t and R_t are finite for every t'
run 0 theory --eigenvalues 1 --rho 0.1 --tilts 0,99
out_has 'Gaussian F_t and R_t are finite for t < 100'
grep -q 'do not exist' "$work/out" && fail "every t is below the limit"

# The derivatives of the worst case: on the boundary those of omega add up to rho^2/2.
run 0 theory --eigenvalues 2,1 --gradient 0.5,0.5 --rho 1 --tilts 0
out_has 'boundary case'
grep 'd omega/d lambda_i' "$work/out" | sed 's/,.*//' | awk '{ s = $(NF-1) + $NF; exit !(s > 0.499999 && s < 0.500001) }' ||
    fail "d omega/d lambda_i do not add up to 1/2: $(grep 'd omega' "$work/out")"
run 0 theory --eigenvalues 2,1 --gradient 0.5,0.5 --rho 1 --tilts 0 --json
out_has '"case": "boundary"'
out_has '"omega_derivative": ['
out_has '"sensitivity_derivative": ['

# Samples can take long: on a terminal there is a bar over all rows of both landscapes.
if script -qec true /dev/null >/dev/null 2>&1 </dev/null; then
    shown() { script -qec "'$ZEST' theory --dim 2 --tilts 0,1 --samples 20000 ${1:-}" /dev/null </dev/null | tr '\r' '\n'; }
    shown >"$work/out"
    grep -q '^theory .*/80000 samples' "$work/out" || fail "no progress while samples are drawn"
    shown --quiet | grep -q '/80000 samples' && fail "--quiet shows progress"
fi
:
