"""Builds the package: copies libzest.so, which `make` built or `make install` installed, beside the Python files.

No compiler is needed. ZEST_LIBRARY names another library file; ZEST_BUNDLE names further libraries that it needs and
that travel with it (`make wheel` uses both).
"""

import os
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # before setuptools 70 the command is in the package wheel
    try:
        from wheel.bdist_wheel import bdist_wheel
    except ImportError:
        bdist_wheel = None

HERE = Path(__file__).resolve().parent
HEADER = HERE.parent / "include" / "zest.h"
HELP = """
zest: the shared library libzest.so was not found. Do one of these, then install again:
  run `make deps all` in the repository, which leaves build/libzest.so
  run `make install` (or install the .deb), so that pkg-config or ldconfig knows the library
  set ZEST_LIBRARY to the path of a libzest.so
"""


def output_of(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def candidates():
    """Where the library may be, the most specific first."""
    if "ZEST_LIBRARY" in os.environ:
        yield Path(os.environ["ZEST_LIBRARY"])
        return
    yield HERE.parent / "build" / "libzest.so"
    folder = output_of("pkg-config", "--variable=libdir", "zest")
    if folder:
        yield Path(folder) / "libzest.so"
    for line in output_of("ldconfig", "-p").splitlines() + output_of("/sbin/ldconfig", "-p").splitlines():
        if line.strip().startswith("libzest.so"):
            yield Path(line.rsplit("=>", 1)[1].strip())


def find_library():
    for path in candidates():
        if path.is_file():
            return path.resolve()
    raise SystemExit(HELP)


def version():
    """That of the header; of a source distribution, that of its own record."""
    if HEADER.is_file():
        return re.search(r'#define ZEST_VERSION "([^"]*)"', HEADER.read_text()).group(1)
    return re.search(r"^Version: (.*)$", (HERE / "PKG-INFO").read_text(), re.MULTILINE).group(1)


class BuildWithLibrary(build_py):
    def run(self):
        super().run()
        if getattr(self, "editable_mode", False):  # the library is found in ../build
            return
        folder = Path(self.build_lib) / "zest"
        library = find_library()
        print(f"zest: takes {library}")
        shutil.copy(library, folder / "libzest.so")
        for other in os.environ.get("ZEST_BUNDLE", "").split():
            shutil.copy(Path(other).resolve(), folder / Path(other).name)


class PlatformDistribution(Distribution):
    """The package has machine code, though no extension module."""

    def has_ext_modules(self):
        return True


commands = {"build_py": BuildWithLibrary}
if bdist_wheel:

    class PlatformWheel(bdist_wheel):
        """Any Python 3, this platform: the library does not use Python's ABI."""

        def finalize_options(self):
            super().finalize_options()
            self.root_is_pure = False

        def get_tag(self):
            return "py3", "none", re.sub(r"[-.]", "_", sysconfig.get_platform())

    commands["bdist_wheel"] = PlatformWheel

setup(version=version(), cmdclass=commands, distclass=PlatformDistribution)
