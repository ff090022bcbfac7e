"""zest: optimise from losses alone (MeZO, ZEST).

    minimize(f, x0)   minimise a Python function of a NumPy array
    Tuner             the same step by step: ask and tell, journal, resume
    Journal           read a journal, rebuild x after any step, bit for bit
    LM                a language model: tokenize, score, losses, logits, generate, tune, save
    train, resume     fine-tune a model on a task; evaluate, Predictor: measure it, use it
    Run               read the folder of a run: options, log, journal, model after any step

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
from .lm import LM, Batch, LMInfo, LMTuner, Score, Tensor, lm_options
from .run import Run
from .train import (
    Evaluation,
    Metrics,
    Prediction,
    Predictor,
    Task,
    TrainProgress,
    TrainResult,
    TrainSummary,
    dry_run,
    evaluate,
    resume,
    tasks,
    train,
    train_options,
)
from .tuner import (
    Direction,
    Lanes,
    Option,
    Result,
    StepReport,
    TiltReport,
    Tuner,
    VectorLanes,
    minimize,
    options,
    seed,
    tilt,
)

__all__ = [
    "ArgumentError",
    "Batch",
    "DeviceError",
    "Direction",
    "Error",
    "Evaluation",
    "FileError",
    "FormatError",
    "Journal",
    "LM",
    "LMInfo",
    "LMTuner",
    "Lanes",
    "Metrics",
    "ObjectiveError",
    "Option",
    "OutOfMemoryError",
    "Prediction",
    "Predictor",
    "Record",
    "Result",
    "Run",
    "Score",
    "StateError",
    "StepReport",
    "Task",
    "Tensor",
    "TiltReport",
    "TrainProgress",
    "TrainResult",
    "TrainSummary",
    "Tuner",
    "VectorLanes",
    "__version__",
    "dry_run",
    "evaluate",
    "lm_options",
    "minimize",
    "options",
    "resume",
    "seed",
    "tasks",
    "tilt",
    "train",
    "train_options",
]
