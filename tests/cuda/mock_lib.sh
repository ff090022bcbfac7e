# For tests of the program on the mock CUDA library, which make builds where nvcc is.
: "${BUILD:=build}"
ZEST=$BUILD/tests/cuda/zest_mock
[ -x "$ZEST" ] || exit 77
export OMP_NUM_THREADS=1
ZEST_CUBLASLT=$(cd "$BUILD/tests/cuda" && pwd)/libmock_cuda.so
export ZEST_CUBLASLT
. tests/cli/lib.sh
