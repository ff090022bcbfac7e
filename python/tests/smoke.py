"""A first use of an installed package: python3 smoke.py EXAMPLES. Prints a line that depends on every bit of the results.

tools/package_test.sh runs it in a clean system and in the repository and compares.
"""

import hashlib
from pathlib import Path

import numpy as np

import zest

# libraries that travel with the package are the ones that are used
folder = Path(zest.__file__).parent
for bundled in folder.glob("lib*.so.*"):
    used = {line.split()[-1] for line in open("/proc/self/maps") if bundled.name in line}
    assert used == {str(bundled)}, (bundled, used)

digest = hashlib.sha256()
for dtype in (np.float32, np.float64):
    result = zest.minimize(lambda x: float((x * x).sum()), np.ones(1000, dtype), k=4, lr=1e-3, steps=50)
    digest.update(result.x.tobytes())
print(f"zest {zest.__version__} {digest.hexdigest()[:16]}")
