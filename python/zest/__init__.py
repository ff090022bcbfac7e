"""zest: optimise from losses alone (MeZO, ZEST).

    minimize(f, x0)   minimise a Python function of a NumPy array
    Tuner             the same step by step: ask and tell, journal, resume
    Journal           read a journal, rebuild x after any step, bit for bit

An object belongs to one thread at a time; different objects are independent.
"""

from ._library import (
    ArgumentError,
    DeviceError,
    Error,
    FileError,
    FormatError,
    ObjectiveError,
    OutOfMemoryError,
    StateError,
    __version__,
)
from .journal import Journal, Record
from .tuner import (
    Direction,
    Lanes,
    Option,
    Result,
    StepReport,
    TiltReport,
    Tuner,
    minimize,
    options,
    seed,
    tilt,
)

__all__ = [
    "ArgumentError",
    "DeviceError",
    "Direction",
    "Error",
    "FileError",
    "FormatError",
    "Journal",
    "Lanes",
    "ObjectiveError",
    "Option",
    "OutOfMemoryError",
    "Record",
    "Result",
    "StateError",
    "StepReport",
    "TiltReport",
    "Tuner",
    "__version__",
    "minimize",
    "options",
    "seed",
    "tilt",
]
