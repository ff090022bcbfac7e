# Built with GRAD=off the library goes forward only: no object and no global symbol of a backward pass is in it. (The
# toys' own gradients, of functions of two variables, are no part of that; nor are the eval target's, which then say no.)
# The program of that build, without libcurl too, works, and says what it was built without.
set -eu
build=${BUILD:-build}/forward-only
make --no-print-directory -s BUILD="$build" OPT=-O0 CUDA=off GRAD=off CURL=off "$build/zest" >"${BUILD:-build}/forward-only.log" 2>&1 ||
    { cat "${BUILD:-build}/forward-only.log" >&2; exit 1; }
[ ! -d "$build/src/grad" ] && [ ! -d "$build/src/baselines" ] || { echo "GRAD=off compiled src/grad or src/baselines" >&2; exit 1; }
nm "$build/libzest.a" >"$build/symbols"
if grep -E ' [A-Z] ' "$build/symbols" | grep -iE 'grad|backward' |
    grep -vE ' zest_(toy_[a-z]*_gradient|eval_target_(gradient|has_gradients))$'; then
    echo "GRAD=off leaves a backward pass in the library" >&2
    exit 1
fi
grep -q ' T zest_model_losses$' "$build/symbols"
# nor would their kernels be compiled, where there is an nvcc
if make --no-print-directory -n BUILD="$build" GRAD=off CURL=off "$build/libzest.a" | grep -E 'src/(grad|baselines)/'; then
    echo "GRAD=off compiles kernels of src/grad or src/baselines" >&2
    exit 1
fi
# and what is left needs nothing of what was left out
if grep -E ' U zest_(grad|backward|optimizer|loss_and_grad|eval_point|optim_vectors|dropout)' "$build/symbols"; then
    echo "GRAD=off leaves calls into the backward pass" >&2
    exit 1
fi

if ldd "$build/zest" | grep -q libcurl; then
    echo "CURL=off links libcurl" >&2
    exit 1
fi
run() { # status, a part of what it says, arguments
    expected=$1 said=$2
    shift 2
    "$build/zest" "$@" >"$build/log" 2>&1 </dev/null
    status=$?
    [ $status -eq "$expected" ] && grep -qF -- "$said" "$build/log" && return
    echo "zest $* of a build with GRAD=off CURL=off: status $status, and it says:" >&2
    cat "$build/log" >&2
    exit 1
}
set +e
small="--model examples/roberta-tiny --task examples/reviews/reviews.task --shots 4 --batch 4 --k 1 --steps 1 --eval-every 0 --test-size 4"
run 0 "steps done after 1 steps" train $small --method zest-n
run 2 "built without gradients" train $small --method sgd
run 2 "built without gradients" pretrain --model examples/roberta-tiny --text README.md
run 1 "built without libcurl" pull org/name
run 1 "apt-get install libcurl4-openssl-dev" pull org/name
rm -rf "$build"
