# The Python package on the library of this build: python/tests. Skipped (77) without python3 or NumPy.
set -eu
: "${BUILD:=build}" "${ZEST:=./zest}"
export BUILD ZEST PYTHONDONTWRITEBYTECODE=1
for python in python3 /usr/bin/python3; do
    if "$python" -c 'import numpy' 2>/dev/null; then
        cd "$(dirname "$0")/.."
        case $BUILD in /*) ;; *) BUILD="$PWD/$BUILD" ;; esac
        ZEST_LIBRARY="$BUILD/libzest.so" PYTHONPATH="$PWD/python:$PWD/python/tests" \
            exec "$python" -m unittest discover -s python/tests
    fi
done
echo "skipped: there is no python3 with NumPy (apt-get install python3-numpy)" >&2
exit 77
