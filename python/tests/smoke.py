"""A first use of an installed package: python3 smoke.py EXAMPLES. Prints a line that depends on every bit of the results.

tools/package_test.sh runs it in a clean system and in the repository and compares.
"""

import hashlib
import sys
from pathlib import Path

import numpy as np


def mapped() -> set[str]:
    return {line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}


before = mapped()
import zest  # noqa: E402

# Libraries that travel with the package are the ones that are used, but for those that Python itself had loaded before,
# as it may have zlib: a process has one library of a name.
folder = Path(zest.__file__).parent
for bundled in folder.glob("lib*.so.*"):
    if any(bundled.name in path for path in before):
        continue
    used = {path for path in mapped() if bundled.name in path}
    assert used == {str(bundled)}, (bundled, used)

digest = hashlib.sha256()
for dtype in (np.float32, np.float64):
    result = zest.minimize(lambda x: float((x * x).sum()), np.ones(1000, dtype), k=4, lr=1e-3, steps=50)
    digest.update(result.x.tobytes())
examples = Path(sys.argv[1])
with zest.LM(examples / "roberta-tiny") as lm:
    digest.update(lm.logits("A good day.").tobytes())
result = zest.train(
    examples / "roberta-tiny", examples / "reviews" / "reviews.task", steps=3, k=2, batch=16, dev_size=16, test_size=16
)
digest.update(repr(result.test.loss).encode())
print(f"zest {zest.__version__} {digest.hexdigest()[:16]}")
