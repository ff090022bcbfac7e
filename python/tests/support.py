"""What the tests share: where things are, a C compiler, the command line."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("BUILD", "build")
ZEST = ROOT / os.environ.get("ZEST", "zest")
CC = shutil.which(os.environ.get("CC", "cc").split()[0])


class Case(unittest.TestCase):
    """A test with a temporary folder."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="zest-python-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def compile(self, source, *flags):
        """A C program, linked with the shared library that the package loads in the repository."""
        if not CC:
            self.skipTest("no C compiler")
        (self.folder / "program.c").write_text(source)
        program = self.folder / "program"
        subprocess.run(
            [CC, "-std=c11", "-Wall", "-Werror", f"-I{ROOT}/include", "-o", program, self.folder / "program.c", *flags],
            check=True,
        )
        return program

    def zest(self, *arguments, **how):
        """What the command line prints as JSON."""
        if not ZEST.exists():
            self.skipTest(f"no program {ZEST}")
        done = subprocess.run([ZEST, *map(str, arguments)], stdout=subprocess.PIPE, check=True, **how)
        return json.loads(done.stdout)
