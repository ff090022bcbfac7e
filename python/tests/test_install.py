"""setup.py: the library that `make` built goes into the package; without one it says what to do."""

import os
import shutil
import subprocess
import sys
import unittest

from support import BUILD, ROOT, Case

try:
    import setuptools

    ready = int(setuptools.__version__.split(".")[0]) >= 61  # as pyproject.toml says
except ImportError:
    ready = False


@unittest.skipUnless(ready, "setuptools 61 is not installed")
class Install(Case):
    def build(self, **environment):
        """Runs setup.py on a copy of the repository's parts that it needs."""
        tree = self.folder / "tree"
        ignore = shutil.ignore_patterns("build", "*.egg-info", "__pycache__")
        shutil.copytree(ROOT / "python", tree / "python", ignore=ignore, dirs_exist_ok=True)
        shutil.copytree(ROOT / "include", tree / "include", dirs_exist_ok=True)
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("ZEST_", "PYTHONPATH"))}
        command = [sys.executable, "setup.py", "--quiet", "build_py", "--build-lib", str(self.folder / "lib")]
        done = subprocess.run(
            command, cwd=tree / "python", env={**clean, **environment}, capture_output=True, text=True
        )
        return tree, done

    def test_takes_the_library(self):
        (self.folder / "tree").mkdir()
        (self.folder / "tree" / "build").symlink_to(BUILD)
        _, done = self.build()
        self.assertEqual(done.returncode, 0, done.stderr)
        script = "import zest, sys; print(zest.__file__); assert zest.minimize(lambda x: x[0] ** 2, [1.0]).steps"
        command = [sys.executable, "-c", script]
        environment = {**os.environ, "PYTHONPATH": str(self.folder / "lib"), "ZEST_LIBRARY": ""}
        printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        self.assertEqual(printed.strip(), str(self.folder / "lib" / "zest" / "__init__.py"))
        self.assertTrue((self.folder / "lib" / "zest" / "py.typed").exists())

    def test_says_what_is_missing(self):
        _, done = self.build(ZEST_LIBRARY=str(self.folder / "none.so"))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("make deps all", done.stderr)
        script = [sys.executable, "-c", "import zest"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "ZEST_LIBRARY": str(self.folder / "none.so")}
        done = subprocess.run(script, env=environment, capture_output=True, text=True)
        self.assertIn("ImportError: " + str(self.folder / "none.so"), done.stderr)
