"""minimize and Tuner: the bits of the C library and of the command line, exceptions, Ctrl-C, lanes."""

import os
import signal
import subprocess
import threading
import unittest
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from support import BUILD, Case

import zest
from zest._callbacks import Callbacks

OPTIONS = dict(k=3, rho=1e-3, lr=0.05, t=0.7, seed=7, schedule="cosine", steps=120, eval_every=10)

C_PROGRAM = """
#include <stdio.h>
#include "zest.h"
static double bowl(const %(type)s *x, size_t n, void *user) {
    double sum = 0;
    (void)user;
    for (size_t i = 0; i < n; i++) sum += ((double)x[i] - 1) * ((double)x[i] - 1);
    return sum;
}
int main(void) {
    %(type)s x[5] = {0.1, 0.2, 0.3, 0.4, 0.5};
    zest_result result;
    zest_ctx *ctx = zest_ctx_new();
    if (zest_minimize_%(name)s(ctx, bowl, NULL, x, 5, "%(options)s", &result)) return 1;
    fwrite(x, sizeof x, 1, stdout);
    fwrite(&result.loss, sizeof result.loss, 1, stdout);
    zest_ctx_free(ctx);
    return 0;
}
"""


def bowl(x):
    """sum (x_i - 1)^2 in C's order of additions."""
    total = 0.0
    for value in x.reshape(-1).tolist():
        total += (value - 1) * (value - 1)
    return total


class Minimize(Case):
    def test_same_bits_as_c(self):
        start = [0.1, 0.2, 0.3, 0.4, 0.5]
        for name, c_type, dtype in (("f64", "double", np.float64), ("f32", "float", np.float32)):
            text = " ".join(f"{key.replace('_', '-')}={value}" for key, value in OPTIONS.items())
            source = C_PROGRAM % {"name": name, "type": c_type, "options": text}
            program = self.compile(source, f"-L{BUILD}", "-lzest", f"-Wl,-rpath,{BUILD}")
            printed = subprocess.run([program], capture_output=True, check=True).stdout
            result = zest.minimize(bowl, np.array(start, dtype), **OPTIONS)
            self.assertEqual(result.x.tobytes() + np.float64(result.loss).tobytes(), printed, name)
            self.assertEqual((result.stop, result.steps), ("steps", 120))

    def test_same_bits_as_the_command_line(self):
        program = BUILD / "tests" / "programs" / "objective"
        if not program.exists():
            self.skipTest("make check builds the objective")
        flags = [part for key, value in OPTIONS.items() for part in (f"--{key.replace('_', '-')}", str(value))]
        told = self.zest("minimize", "--exec", f"{program} f64 4", "--format", "f64", "--dim", 4, "--json", *flags)
        result = zest.minimize(bowl, [0.0] * 4, **OPTIONS)
        self.assertEqual(result.x.tolist(), told["x"])
        self.assertEqual(result.reason, told["stop"])
        self.assertEqual((result.loss, result.best, result.best_step), (told["loss"], told["best"], told["best_step"]))
        self.assertEqual(result.evaluations, told["evaluations"])

    def test_forms_agree(self):
        """One point at a time, all at once, lanes in threads, ask and tell, one step at a time: the same bits."""
        start = np.linspace(0, 0.5, 6, dtype=np.float32).reshape(2, 3)
        expected = zest.minimize(bowl, start, **OPTIONS).x
        self.assertEqual(expected.shape, (2, 3))
        self.assertFalse(np.array_equal(expected, start))
        both = zest.minimize(lambda points: [bowl(p) for p in points], start, vectorized=True, **OPTIONS)
        np.testing.assert_array_equal(both.x, expected)
        with ThreadPoolExecutor(3) as pool:

            def in_threads(lanes):
                return list(pool.map(lambda i: bowl(lanes[i]), range(len(lanes))))

            x = start.copy()
            zest.Tuner(x, f_lanes=in_threads, **OPTIONS).run()
        np.testing.assert_array_equal(x, expected)
        for loop in ("ask", "step"):
            x = start.copy()
            tuner = zest.Tuner(x, bowl, **OPTIONS)
            for number in range(1, 121):
                report = tuner.tell([bowl(lane) for lane in tuner.ask()]) if loop == "ask" else tuner.step()
                self.assertEqual(report.step, number)
            np.testing.assert_array_equal(x, expected)

    def test_lanes_are_x_plus_scaled_directions(self):
        tuner = zest.Tuner(np.ones(7), k=2, rho=0.5, seed=3)
        lanes = tuner.ask()
        matrix = lanes.array()
        self.assertEqual(matrix.shape, (4, 7))
        for i, lane in enumerate(lanes):
            direction, scale = lanes.describe(i)
            self.assertEqual(abs(scale), 0.5)
            self.assertEqual(direction.seed, zest.seed(3, 0, i // 2))
            np.testing.assert_allclose(lane, 1 + scale * direction.read().astype(float), rtol=1e-15)
            np.testing.assert_array_equal(matrix[i], lane)
            np.testing.assert_array_equal(lanes.read(i, first=2, count=3), lane[2:5])
        np.testing.assert_allclose(matrix[0::2] + matrix[1::2], 2, rtol=1e-15)
        np.testing.assert_array_equal(zest.Direction(zest.seed(3, 0, 1), 7).read(2, 4), direction.read()[2:6])
        self.assertRaises(IndexError, lambda: lanes[4])
        tuner.tell([1.0, 2.0, 3.0, 4.0])
        self.assertRaises(zest.StateError, lambda: lanes[0])

    def test_works_in_place(self):
        x = np.zeros(4, np.float32)
        seen = []

        def f(point):
            seen.append((point.dtype, point.flags.writeable, point.__array_interface__["data"][0]))
            return bowl(point)

        tuner = zest.Tuner(x, f, lr=0.05)
        self.assertIs(tuner.x.base if tuner.x.base is not None else tuner.x, x)
        tuner.step()
        self.assertTrue(x.any())
        self.assertEqual({entry[:2] for entry in seen}, {(np.dtype(np.float32), False)})
        self.assertEqual(len({entry[2] for entry in seen}), 1)  # one buffer for all lanes
        before = np.zeros(4)
        zest.minimize(bowl, before, steps=3)
        self.assertFalse(before.any())
        result = zest.minimize(bowl, before, steps=3, overwrite_x0=True)
        self.assertTrue(before.any())
        np.testing.assert_array_equal(result.x, before)

    def test_tilt_against_its_formula(self):
        losses = np.array([1.0, 0.4, 0.9, 1.3, 0.2, 0.25])
        plus, minus = losses[0::2], losses[1::2]
        coefficients, report = zest.tilt(losses, t=0, rho=0.1)
        np.testing.assert_allclose(coefficients, (plus - minus) / (2 * 0.1 * 3), rtol=1e-14)
        t = 2.0
        coefficients, report = zest.tilt(losses, t=t, rho=0.1)
        weights = (np.exp(t * plus) - np.exp(t * minus)) / np.exp(t * losses).sum()
        np.testing.assert_allclose(coefficients, weights / (t * 0.1), rtol=1e-13)
        self.assertAlmostEqual(report.tilted, np.log(np.exp(t * losses).mean()) / t, places=14)
        self.assertRaises(zest.ArgumentError, zest.tilt, [1.0])


class Failures(Case):
    def test_exception_is_raised_and_leaves_no_trace(self):
        calls = []

        def f(x):
            calls.append(1)
            if len(calls) == 18:  # in the third step of six evaluations
                raise KeyError("mine")
            return bowl(x)

        x = np.zeros(3)
        tuner = zest.Tuner(x, f, k=3, lr=0.05, steps=10)
        tuner.start_journal(self.folder / "journal")
        with self.assertRaisesRegex(KeyError, "mine"):
            tuner.run()
        with zest.Journal(self.folder / "journal") as journal:
            self.assertEqual(len(journal), 2)
            np.testing.assert_array_equal(journal.replay(np.zeros(3)), x)
        result = tuner.run()  # goes on
        np.testing.assert_array_equal(result.x, zest.minimize(bowl, np.zeros(3), k=3, lr=0.05, steps=10).x)

    def test_on_step(self):
        steps = []
        result = zest.minimize(bowl, [0.0], on_step=lambda report: steps.append(report.step) or len(steps) == 4)
        self.assertEqual((steps, result.stop, result.steps), ([1, 2, 3, 4], "callback", 4))
        with self.assertRaises(ZeroDivisionError):
            zest.minimize(bowl, [0.0], on_step=lambda report: 1 / 0)

    def test_interrupt(self):
        """Ctrl-C in the objective, and while C computes, ends the run with KeyboardInterrupt."""
        for n, where in ((2, "in Python"), (300_000, "mostly in C")):
            count, timer = [0], None

            def f(x):
                count[0] += 1
                if n == 2 and count[0] == 50:
                    os.kill(os.getpid(), signal.SIGINT)
                return float(x[0])

            if n > 2:
                timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
                timer.start()
            with self.assertRaises(KeyboardInterrupt, msg=where):
                zest.minimize(f, np.zeros(n), steps=10**9, seconds=20)
            self.assertGreater(count[0], 0)
            self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)

    def test_interrupt_between_callbacks(self):
        """A signal that arrives while C runs is kept until a callback, or the end of the call, can raise it."""
        callbacks, returned = Callbacks(), []
        wrapped = callbacks.wrap(lambda: 5, 1)
        with self.assertRaises(KeyboardInterrupt):
            with callbacks.calling():
                self.assertEqual(wrapped(), 5)
                os.kill(os.getpid(), signal.SIGINT)
                returned.append(wrapped())
        self.assertEqual(returned, [1])
        with self.assertRaises(KeyboardInterrupt):
            with callbacks.calling():
                os.kill(os.getpid(), signal.SIGINT)
                returned.append("went on")
        self.assertEqual(returned, [1, "went on"])

    def test_first_exception_counts(self):
        """C may call again before it stops: the callback is not run, and the first exception is raised."""
        callbacks, calls = Callbacks(), []
        wrapped = callbacks.wrap(lambda: calls.append(1) or 1 // 0, 7)
        with self.assertRaises(ZeroDivisionError):
            with callbacks.calling():
                self.assertEqual([wrapped(), wrapped()], [7, 7])
        self.assertEqual(len(calls), 1)

    def test_errors_have_the_library_s_words(self):
        cases = [
            (zest.ArgumentError, "no option is called 'colour'", dict(colour=1)),
            (ValueError, "rho", dict(rho=-1)),
            (zest.ArgumentError, "adamw", dict(method="adamw")),
        ]
        for kind, words, options in cases:
            with self.assertRaisesRegex(kind, words):
                zest.minimize(bowl, [0.0], **options)
        with self.assertRaises(zest.ObjectiveError):
            zest.minimize(lambda x: float("nan"), [0.0])
        with self.assertRaises(zest.StateError):
            zest.Tuner([0.0]).step()
        with self.assertRaises(zest.ArgumentError):
            zest.Tuner(np.zeros((4, 4))[:, ::2])
        with self.assertRaises(TypeError):
            zest.minimize(lambda x: None, [0.0])
        with self.assertRaises(ValueError):  # the point is read-only
            zest.minimize(lambda x: x.fill(0), [0.0])

    def test_own_objective_cannot_call_the_tuner(self):
        tuner = zest.Tuner([0.0], lambda x: tuner.step().loss)
        with self.assertRaises(zest.StateError):
            tuner.step()
        nested = zest.minimize(lambda x: zest.minimize(bowl, x, steps=2).loss, [0.0], steps=2)
        self.assertEqual(nested.steps, 2)

    def test_closed(self):
        tuner = zest.Tuner([0.0], bowl)
        tuner.close()
        tuner.close()
        self.assertRaises(zest.StateError, tuner.step)
        self.assertRaises(zest.StateError, tuner.set, lr=1)


class Options(unittest.TestCase):
    def test_table(self):
        table = {option.name: option for option in zest.options()}
        self.assertEqual(table["rho"].kind, "real")
        self.assertIn("zest-bc", table["method"].values)
        self.assertTrue(all(option.help for option in table.values()))
        tuner = zest.Tuner([0.0], final_lr=0.1, lr=np.float64(1e-3))
        self.assertEqual(set(tuner.options), set(table))
        self.assertEqual(float(tuner.get("final_lr")), 0.1)
        self.assertEqual(float(tuner.get("lr")), 1e-3)
        self.assertEqual(tuner.get("k"), table["k"].default)
        self.assertRaises(KeyError, tuner.get, "colour")
