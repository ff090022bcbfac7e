"""The shared library: where it is, what it declares, how its errors become exceptions.

STRUCTS, ENUMS and FUNCTIONS mirror the C headers. tests/test_declarations.py compares them with the headers, argument
by argument, and with a C compiler's layout of the structs.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_char,
    c_char_p,
    c_double,
    c_int,
    c_int32,
    c_size_t,
    c_uint,
    c_uint64,
    c_void_p,
)
from pathlib import Path
from typing import Any, Callable

VERSION = "0.2"  # major.minor of the headers that this file mirrors

# ---- Exceptions: one for each zest_status ---------------------------------------------------------------------


class Error(Exception):
    """An error of the library. The message says what was wrong, where, and what to do."""

    status = 0


class ArgumentError(Error, ValueError):
    """A value is out of range, unknown or missing."""

    status = 1


class OutOfMemoryError(Error, MemoryError):
    """An allocation failed."""

    status = 2


class FileError(Error, OSError):
    """A file could not be opened, read or written."""

    status = 3

    def __str__(self) -> str:  # OSError formats its arguments otherwise
        return str(self.args[0]) if self.args else ""


class FormatError(Error, ValueError):
    """A file is damaged, or does not belong to this run."""

    status = 4


class StateError(Error, RuntimeError):
    """Calls came in the wrong order."""

    status = 5


class ObjectiveError(Error, RuntimeError):
    """The objective gave up, or gave no finite loss for too many steps."""

    status = 6


class DeviceError(Error, RuntimeError):
    """A GPU, its driver or its libraries failed."""

    status = 7


ERRORS: dict[int, type[Error]] = {
    e.status: e
    for e in (ArgumentError, OutOfMemoryError, FileError, FormatError, StateError, ObjectiveError, DeviceError)
}


for _error in (Error, *ERRORS.values()):
    _error.__module__ = "zest"  # where they are to be found, and what a traceback says


# ---- Types of zest.h ------------------------------------------------------------------------------------------


class Direction_(Structure):
    _fields_ = [("seed", c_uint64), ("dimension", c_uint64), ("gain", c_double), ("distribution", c_int)]


class TiltOptions(Structure):
    _fields_ = [
        ("estimator", c_int),
        ("t", c_double),
        ("rho", c_double),
        ("k", c_size_t),
        ("ball_pairs", c_size_t),
        ("format", c_int),
    ]


class TiltReport_(Structure):
    _fields_ = [
        ("mean", c_double),
        ("tilted", c_double),
        ("lowest", c_double),
        ("highest", c_double),
        ("spread", c_double),
        ("slope", c_double),
        ("curvature", c_double),
        ("effective", c_double),
        ("saturation", c_double),
        ("dropped", c_size_t),
        ("flipped", c_size_t),
        ("t", c_double),
        ("scale", c_double),
    ]


class Option_(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("kind", c_char_p),
        ("fallback", c_char_p),
        ("help", c_char_p),
        ("values", c_char * 96),
    ]


class StepReport_(Structure):
    _fields_ = [
        ("step", c_uint64),
        ("evaluations", c_uint64),
        ("lr", c_double),
        ("loss", c_double),
        ("tilt", TiltReport_),
    ]


class Result_(Structure):
    _fields_ = [
        ("stop", c_int),
        ("steps", c_uint64),
        ("evaluations", c_uint64),
        ("dropped_pairs", c_uint64),
        ("loss", c_double),
        ("best", c_double),
        ("best_step", c_uint64),
        ("seconds", c_double),
    ]


class Record_(Structure):
    _fields_ = [
        ("step", c_uint64),
        ("lr", c_double),
        ("count", c_size_t),
        ("losses", POINTER(c_double)),
        ("has_center", c_int),
    ]


ObjectiveLanes = CFUNCTYPE(c_int, c_void_p, POINTER(c_double), c_void_p)
OnStep = CFUNCTYPE(c_int, POINTER(StepReport_), c_void_p)

# ---- Types of zest_lm.h ---------------------------------------------------------------------------------------

Progress = CFUNCTYPE(None, c_uint64, c_uint64, c_void_p)
OnToken = CFUNCTYPE(c_int, c_size_t, c_int32, c_void_p)


class LMInfo_(Structure):
    _fields_ = [
        ("family", c_char_p),
        ("weights", c_char_p),
        ("compute", c_char_p),
        ("device", c_char_p),
        ("parameters", c_uint64),
        ("trained", c_uint64),
        ("step", c_uint64),
        ("vocab_size", c_size_t),
        ("tokens", c_size_t),
        ("hidden_size", c_size_t),
        ("layers", c_size_t),
        ("heads", c_size_t),
        ("kv_heads", c_size_t),
        ("ffn_size", c_size_t),
        ("max_positions", c_size_t),
        ("causal", c_int),
        ("has_weights", c_int),
    ]


class GenerateOptions(Structure):
    _fields_ = [
        ("max_tokens", c_size_t),
        ("stops", c_void_p),
        ("stop_count", c_size_t),
        ("ignore_eos", c_int),
        ("keep", c_int),
        ("on_token", OnToken),
        ("on_progress", Progress),
        ("user", c_void_p),
    ]


class PerplexityOptions(Structure):
    _fields_ = [("window", c_size_t), ("stride", c_size_t), ("on_progress", Progress), ("user", c_void_p)]


class PerplexityResult(Structure):
    _fields_ = [("perplexity", c_double), ("log_probability", c_double), ("tokens", c_size_t), ("windows", c_size_t)]


class Tensor_(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("dtype", c_char_p),
        ("rank", c_size_t),
        ("shape", c_size_t * 2),
        ("count", c_size_t),
        ("trained", c_int),
    ]


class Metrics_(Structure):
    _fields_ = [
        ("n", c_size_t),
        ("bad", c_size_t),
        ("loss", c_double),
        ("accuracy", c_double),
        ("f1", c_double),
        ("em", c_double),
        ("perplexity", c_double),
        ("value", c_double),
        ("low", c_double),
        ("high", c_double),
    ]


class TrainSummary_(Structure):
    _fields_ = [
        ("options", c_void_p),
        ("family", c_char_p),
        ("weights", c_char_p),
        ("task", c_char_p),
        ("select", c_char_p),
        ("parameters", c_uint64),
        ("trained", c_uint64),
        ("train", c_size_t),
        ("dev", c_size_t),
        ("test", c_size_t),
        ("cut", c_size_t),
        ("live", c_size_t),
        ("steps", c_uint64),
        ("eval_every", c_uint64),
        ("step", c_uint64),
        ("evaluations", c_uint64),
        ("memory", c_uint64),
        ("epochs", c_double),
        ("batch_tokens", c_double),
        ("step_seconds", c_double),
        ("total_seconds", c_double),
        ("peak_bytes", c_uint64),
        ("device_peak_bytes", c_uint64),
        ("on_device", c_int),
    ]


class TrainProgress_(Structure):
    _fields_ = [
        ("step", c_uint64),
        ("steps", c_uint64),
        ("loss", c_double),
        ("lr", c_double),
        ("effective", c_double),
        ("spread", c_double),
        ("slope", c_double),
        ("curvature", c_double),
        ("norm", c_double),
        ("tokens_per_second", c_double),
        ("seconds", c_double),
        ("dev", Metrics_),
        ("dev_step", c_uint64),
        ("dev_seconds", c_double),
        ("evaluated", c_int),
        ("best", c_int),
        ("advice", c_char_p),
    ]


OnStart = CFUNCTYPE(None, POINTER(TrainSummary_), c_void_p)
OnProgress = CFUNCTYPE(c_int, POINTER(TrainProgress_), c_void_p)
OnNote = CFUNCTYPE(None, c_char_p, c_void_p)


class LMCallbacks(Structure):
    _fields_ = [
        ("on_start", OnStart),
        ("on_progress", OnProgress),
        ("on_rebuild", Progress),
        ("on_evaluate", Progress),
        ("on_note", OnNote),
        ("user", c_void_p),
        ("stop", POINTER(c_int)),
    ]


class TrainResult_(Structure):
    _fields_ = [
        ("reason", c_int),
        ("step", c_uint64),
        ("best_step", c_uint64),
        ("start", Metrics_),
        ("dev", Metrics_),
        ("test", Metrics_),
        ("seconds", c_double),
        ("peak_bytes", c_uint64),
        ("device_peak_bytes", c_uint64),
        ("dropped_pairs", c_uint64),
        ("train", c_size_t),
        ("dev_count", c_size_t),
        ("test_count", c_size_t),
        ("cut", c_size_t),
        ("metric", c_char * 16),
        ("first_loss", c_double),
        ("latest_loss", c_double),
        ("divergence_limit", c_double),
        ("divergence_steps", c_uint64),
    ]


class Evaluation_(Structure):
    _fields_ = [
        ("metrics", Metrics_),
        ("step", c_uint64),
        ("is_run", c_int),
        ("seconds", c_double),
        ("metric", c_char * 16),
        ("task", c_char * 256),
    ]


class Field_(Structure):
    _fields_ = [("name", c_char_p), ("texts", POINTER(c_char_p)), ("count", c_size_t)]


class Prediction_(Structure):
    _fields_ = [
        ("row", c_size_t),
        ("choice", c_int32),
        ("label", c_int32),
        ("text", c_char_p),
        ("probabilities", POINTER(c_double)),
        ("probability_count", c_size_t),
        ("truncated", c_int),
        ("record", c_char_p),
        ("record_size", c_size_t),
        ("fields", POINTER(Field_)),
        ("field_count", c_size_t),
    ]


OnPrediction = CFUNCTYPE(c_int, POINTER(Prediction_), c_void_p)
OnRefused = CFUNCTYPE(None, c_size_t, c_char_p, c_void_p)


class PredictCallbacks(Structure):
    _fields_ = [
        ("on_prediction", OnPrediction),
        ("on_refused", OnRefused),
        ("on_progress", Progress),
        ("user", c_void_p),
    ]


class RowsFormat(Structure):
    _fields_ = [("name", c_char_p), ("format", c_char_p), ("single", c_int)]


class TaskInfo_(Structure):
    _fields_ = [("name", c_char_p), ("models", c_char_p), ("about", c_char_p)]


# ---- What the tests compare with the headers ------------------------------------------------------------------

# C's names of the structs, for the test of their layout.
STRUCTS: dict[str, type[Structure]] = {
    "zest_direction": Direction_,
    "zest_tilt_options": TiltOptions,
    "zest_tilt_report": TiltReport_,
    "zest_option": Option_,
    "zest_step_report": StepReport_,
    "zest_result": Result_,
    "zest_record": Record_,
    "zest_lm_info": LMInfo_,
    "zest_lm_generate_options": GenerateOptions,
    "zest_lm_perplexity_options": PerplexityOptions,
    "zest_lm_perplexity_result": PerplexityResult,
    "zest_lm_tensor": Tensor_,
    "zest_lm_metrics": Metrics_,
    "zest_lm_train_summary": TrainSummary_,
    "zest_lm_train_progress": TrainProgress_,
    "zest_lm_callbacks": LMCallbacks,
    "zest_lm_train_result": TrainResult_,
    "zest_lm_evaluation": Evaluation_,
    "zest_lm_field": Field_,
    "zest_lm_prediction": Prediction_,
    "zest_lm_predict_callbacks": PredictCallbacks,
    "zest_lm_rows_format": RowsFormat,
    "zest_lm_task_info": TaskInfo_,
}

DISTRIBUTIONS = ("gaussian", "sphere", "ball", "rademacher")
ESTIMATORS = ("naive", "bias-corrected")
STOPS = ("none", "steps", "evaluations", "time", "target", "stagnation", "callback")
ROLES = ("bos", "eos", "pad", "unk", "mask", "cls", "sep")
STOP_REASONS = ("done", "patience", "time", "interrupted", "diverged")
ADD_SPECIAL, LITERAL, SKIP_SPECIAL = 1, 2, 4

# Values of C's enumerators that the package relies on.
ENUMS: dict[str, int] = {
    "ZEST_OK": 0,
    "ZEST_ERROR_ARGUMENT": ArgumentError.status,
    "ZEST_ERROR_MEMORY": OutOfMemoryError.status,
    "ZEST_ERROR_FILE": FileError.status,
    "ZEST_ERROR_FORMAT": FormatError.status,
    "ZEST_ERROR_STATE": StateError.status,
    "ZEST_ERROR_OBJECTIVE": ObjectiveError.status,
    "ZEST_ERROR_DEVICE": DeviceError.status,
    **{"ZEST_" + name.upper(): i for i, name in enumerate(DISTRIBUTIONS)},
    **{"ZEST_" + name.upper().replace("-", "_"): i for i, name in enumerate(ESTIMATORS)},
    **{"ZEST_STOP_" + name.upper(): i for i, name in enumerate(STOPS)},
    **{"ZEST_LM_" + name.upper(): i for i, name in enumerate(ROLES)},
    **{"ZEST_LM_" + name.upper(): i for i, name in enumerate(STOP_REASONS)},
    "ZEST_LM_ADD_SPECIAL": ADD_SPECIAL,
    "ZEST_LM_LITERAL": LITERAL,
    "ZEST_LM_SKIP_SPECIAL": SKIP_SPECIAL,
}

# Result and arguments. Arrays and opaque handles are c_void_p.
FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "zest_version": (c_char_p, []),
    "zest_status_name": (c_char_p, [c_int]),
    "zest_ctx_new": (c_void_p, []),
    "zest_ctx_free": (None, [c_void_p]),
    "zest_ctx_error": (c_char_p, [c_void_p]),
    "zest_ctx_status": (c_int, [c_void_p]),
    "zest_ctx_cpu": (c_char_p, [c_void_p]),
    "zest_seed": (c_uint64, [c_uint64, c_uint64, c_uint64]),
    "zest_direction_init": (c_int, [c_void_p, POINTER(Direction_), c_int, c_uint64, c_uint64]),
    "zest_direction_read": (c_int, [c_void_p, POINTER(Direction_), c_uint64, c_size_t, c_void_p]),
    "zest_tilt": (c_int, [c_void_p, POINTER(TiltOptions), c_void_p, c_void_p, POINTER(TiltReport_)]),
    "zest_tuner_option": (c_int, [c_size_t, POINTER(Option_)]),
    "zest_lanes_count": (c_size_t, [c_void_p]),
    "zest_lanes_dimension": (c_size_t, [c_void_p]),
    "zest_lanes_read_f32": (c_int, [c_void_p, c_size_t, c_size_t, c_size_t, c_void_p]),
    "zest_lanes_read_f64": (c_int, [c_void_p, c_size_t, c_size_t, c_size_t, c_void_p]),
    "zest_lanes_describe": (c_int, [c_void_p, c_size_t, POINTER(Direction_), POINTER(c_double)]),
    "zest_tuner_new_f32": (c_void_p, [c_void_p, c_void_p, c_size_t]),
    "zest_tuner_new_f64": (c_void_p, [c_void_p, c_void_p, c_size_t]),
    "zest_tuner_free": (None, [c_void_p]),
    "zest_tuner_set": (c_int, [c_void_p, c_char_p, c_char_p]),
    "zest_tuner_get": (c_char_p, [c_void_p, c_char_p]),
    "zest_tuner_objective_lanes": (c_int, [c_void_p, ObjectiveLanes, c_void_p]),
    "zest_tuner_start_journal": (c_int, [c_void_p, c_char_p]),
    "zest_tuner_resume_journal": (c_int, [c_void_p, c_char_p]),
    "zest_tuner_step": (c_int, [c_void_p, POINTER(StepReport_)]),
    "zest_tuner_ask": (c_int, [c_void_p, POINTER(c_void_p)]),
    "zest_tuner_tell": (c_int, [c_void_p, c_void_p, POINTER(StepReport_)]),
    "zest_stop_name": (c_char_p, [c_int]),
    "zest_tuner_run": (c_int, [c_void_p, POINTER(Result_)]),
    "zest_tuner_on_step": (None, [c_void_p, OnStep, c_void_p]),
    "zest_tuner_stop": (None, [c_void_p]),
    "zest_journal_open": (c_void_p, [c_void_p, c_char_p]),
    "zest_journal_close": (None, [c_void_p]),
    "zest_journal_steps": (c_uint64, [c_void_p]),
    "zest_journal_torn": (c_uint64, [c_void_p]),
    "zest_journal_option": (c_char_p, [c_void_p, c_char_p]),
    "zest_journal_dimension": (c_uint64, [c_void_p]),
    "zest_journal_is_f64": (c_int, [c_void_p]),
    "zest_journal_read": (c_int, [c_void_p, c_uint64, POINTER(Record_)]),
    "zest_journal_replay_f32": (c_int, [c_void_p, c_uint64, c_void_p, c_size_t]),
    "zest_journal_replay_f64": (c_int, [c_void_p, c_uint64, c_void_p, c_size_t]),
    "zest_lm_load": (c_void_p, [c_void_p, c_char_p, c_char_p]),
    "zest_lm_open_run": (c_void_p, [c_void_p, c_char_p, c_char_p, c_char_p, Progress, c_void_p]),
    "zest_lm_load_tokenizer": (c_void_p, [c_void_p, c_char_p]),
    "zest_lm_free": (None, [c_void_p]),
    "zest_lm_save": (c_int, [c_void_p, c_char_p]),
    "zest_lm_chat_prompt": (c_int, [c_void_p, c_char_p, c_char_p, c_size_t, POINTER(c_size_t)]),
    "zest_lm_save_gguf": (c_int, [c_void_p, c_char_p, c_char_p]),
    "zest_lm_set_sampling": (c_int, [c_void_p, c_char_p]),
    "zest_lm_perplexity": (
        c_int,
        [c_void_p, c_void_p, c_size_t, POINTER(PerplexityOptions), POINTER(PerplexityResult)],
    ),
    "zest_lm_option": (c_int, [c_size_t, POINTER(Option_)]),
    "zest_lm_get_info": (c_int, [c_void_p, POINTER(LMInfo_)]),
    "zest_lm_fingerprint": (c_int, [c_void_p, POINTER(c_uint64)]),
    "zest_lm_encode": (c_int, [c_void_p, c_char_p, c_size_t, c_uint, c_void_p, c_size_t, POINTER(c_size_t)]),
    "zest_lm_decode": (
        c_int,
        [c_void_p, c_void_p, c_size_t, c_size_t, c_uint, c_char_p, c_size_t, POINTER(c_size_t)],
    ),
    "zest_lm_token": (c_char_p, [c_void_p, c_int32, POINTER(c_size_t)]),
    "zest_lm_token_id": (c_int32, [c_void_p, c_char_p]),
    "zest_lm_token_is_special": (c_int, [c_void_p, c_int32]),
    "zest_lm_token_bytes": (c_int, [c_void_p, c_int32, c_char_p, c_size_t, POINTER(c_size_t)]),
    "zest_lm_single_token": (c_int, [c_void_p, c_char_p, POINTER(c_int32)]),
    "zest_lm_special_token": (c_int32, [c_void_p, c_int]),
    "zest_lm_batch_new": (c_void_p, [c_void_p]),
    "zest_lm_batch_free": (None, [c_void_p]),
    "zest_lm_batch_clear": (None, [c_void_p]),
    "zest_lm_batch_count": (c_size_t, [c_void_p]),
    "zest_lm_batch_add_text": (c_int, [c_void_p, c_void_p, c_size_t, c_size_t]),
    "zest_lm_batch_add_mlm": (c_int, [c_void_p, c_void_p, c_size_t, c_void_p, c_void_p, c_size_t]),
    "zest_lm_batch_add_choices": (
        c_int,
        [c_void_p, c_void_p, c_size_t, c_void_p, c_void_p, c_size_t, c_size_t],
    ),
    "zest_lm_batch_set_label_words": (c_int, [c_void_p, c_void_p, c_size_t]),
    "zest_lm_batch_add_masked": (c_int, [c_void_p, c_void_p, c_size_t, c_size_t, c_size_t]),
    "zest_lm_losses": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "zest_lm_choose": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "zest_lm_logits": (c_int, [c_void_p, c_void_p, c_size_t, c_void_p, c_size_t, c_void_p]),
    "zest_lm_score": (c_int, [c_void_p, c_void_p, c_size_t, c_void_p]),
    "zest_lm_generate_batch": (
        c_int,
        [c_void_p, c_void_p, c_void_p, c_size_t, POINTER(GenerateOptions), c_void_p, c_void_p],
    ),
    "zest_lm_tuner": (c_void_p, [c_void_p]),
    "zest_lm_replay": (c_int, [c_void_p, c_void_p, c_uint64]),
    "zest_lm_get_tensor": (c_int, [c_void_p, c_size_t, POINTER(Tensor_)]),
    "zest_lm_read_tensor": (c_int, [c_void_p, c_size_t, c_size_t, c_size_t, c_void_p]),
    "zest_lm_write_tensor": (c_int, [c_void_p, c_size_t, c_size_t, c_size_t, c_void_p]),
    "zest_lm_options_new": (c_void_p, [c_void_p, c_char_p]),
    "zest_lm_options_free": (None, [c_void_p]),
    "zest_lm_options_set": (c_int, [c_void_p, c_char_p, c_char_p]),
    "zest_lm_options_get": (c_char_p, [c_void_p, c_char_p]),
    "zest_lm_options_list": (c_int, [c_void_p, c_size_t, POINTER(Option_)]),
    "zest_lm_stop_reason_name": (c_char_p, [c_int]),
    "zest_lm_train": (c_int, [c_void_p, c_void_p, POINTER(LMCallbacks), POINTER(TrainResult_)]),
    "zest_lm_resume": (c_int, [c_void_p, c_char_p, c_void_p, POINTER(LMCallbacks), POINTER(TrainResult_)]),
    "zest_lm_dry_run": (c_int, [c_void_p, c_void_p, POINTER(LMCallbacks)]),
    "zest_lm_evaluate": (c_int, [c_void_p, c_char_p, c_void_p, POINTER(LMCallbacks), POINTER(Evaluation_)]),
    "zest_lm_predictor_new": (c_void_p, [c_void_p, c_char_p, c_void_p, POINTER(LMCallbacks)]),
    "zest_lm_predictor_free": (None, [c_void_p]),
    "zest_lm_predictor_column": (c_char_p, [c_void_p, c_size_t]),
    "zest_lm_predictor_class": (c_char_p, [c_void_p, c_size_t]),
    "zest_lm_predict": (
        c_int,
        [c_void_p, c_char_p, c_size_t, POINTER(RowsFormat), POINTER(PredictCallbacks)],
    ),
    "zest_lm_predict_split": (c_int, [c_void_p, c_char_p, POINTER(PredictCallbacks)]),
    "zest_lm_task": (c_int, [c_size_t, POINTER(TaskInfo_)]),
}

# ---- Loading --------------------------------------------------------------------------------------------------


def _candidates() -> list[str]:
    """Where the library may be, the most specific first."""
    if os.environ.get("ZEST_LIBRARY"):
        return [os.environ["ZEST_LIBRARY"]]
    here = Path(__file__).resolve().parent
    paths = [here / "libzest.so", here.parents[1] / "build" / "libzest.so"]
    found = [str(path) for path in paths if path.exists()]
    system = ctypes.util.find_library("zest")
    return found + ([system] if system else [])


def _load() -> ctypes.CDLL:
    candidates = _candidates()
    if not candidates:
        raise ImportError(
            "libzest.so was not found: build it with `make` in the repository and install the package again, "
            "install it with `make install`, or set ZEST_LIBRARY to its path"
        )
    try:
        library = ctypes.CDLL(candidates[0])
    except OSError as error:
        raise ImportError(f"{candidates[0]} cannot be loaded: {error}") from error
    for name, (result, arguments) in FUNCTIONS.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise ImportError(f"{candidates[0]} has no {name}: it is not libzest {VERSION}") from None
        function.restype, function.argtypes = result, arguments
    version = library.zest_version().decode()
    if version.split(".")[:2] != VERSION.split("."):
        raise ImportError(f"{candidates[0]} is version {version}, this package needs {VERSION}")
    return library


lib = _load()
__version__: str = lib.zest_version().decode()


# ---- Handles --------------------------------------------------------------------------------------------------


class Context:
    """A zest_ctx: keeps the message of the last error. Objects made from it keep it alive."""

    def __init__(self) -> None:
        self.handle = lib.zest_ctx_new()
        if not self.handle:
            raise OutOfMemoryError(
                "no context: memory is short, or the environment variable ZEST_CPU names no known instruction set"
            )

    def error(self) -> Error:
        """The exception for the call that failed last."""
        status = lib.zest_ctx_status(self.handle)
        message = lib.zest_ctx_error(self.handle).decode("utf-8", "replace")
        return ERRORS.get(status, Error)(message or lib.zest_status_name(status).decode())

    def check(self, status: int) -> None:
        """Raises unless status is ZEST_OK."""
        if status:
            raise self.error()

    def __del__(self, free: Callable[[Any], None] = lib.zest_ctx_free) -> None:
        handle, self.handle = getattr(self, "handle", None), None
        if handle:
            free(handle)


def to_path(path: Any) -> bytes:
    """A file name as C takes it."""
    name = os.fsencode(path)
    if b"\0" in name:
        raise ArgumentError("a file name has no NUL byte")
    return name


def to_text(value: Any) -> bytes:
    """The value of an option as the option table reads it: numbers keep all their digits."""
    if isinstance(value, bool):
        return b"yes" if value else b"no"
    if isinstance(value, (list, tuple)):
        return b",".join(to_text(item) for item in value)
    if hasattr(value, "item"):  # a NumPy number
        value = value.item()
    text = repr(value) if isinstance(value, float) else str(value)
    if "\0" in text:
        raise ArgumentError("an option's value has no NUL character")
    return text.encode()
