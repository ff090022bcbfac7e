"""Training: the bits of the command line, callbacks, Ctrl-C, resume, evaluation, an objective in Python."""

import hashlib
import json
import math
import os
import signal
import subprocess

from support import ROOT, ZEST, Case

import zest

MODEL = ROOT / "examples" / "roberta-tiny"
TASK = ROOT / "examples" / "reviews" / "reviews.task"
SMALL = dict(steps=4, k=2, eval_every=2, batch=16, dev_size=16, test_size=16)


def weights_of(folder):
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


class Training(Case):
    def test_same_run_as_the_command_line(self):
        told, started = [], []
        result = zest.train(
            MODEL, TASK, out=self.folder / "a", on_start=started.append,
            on_progress=lambda p: told.append((p.step, p.evaluated)) and None, **SMALL
        )  # fmt: skip
        flags = [word for name, value in SMALL.items() for word in ("--" + name.replace("_", "-"), str(value))]
        done = self.zest(
            "train", "--model", MODEL, "--task", TASK, "--out", self.folder / "b", "--json", "--quiet", *flags
        )
        self.assertEqual((result.reason, result.step), ("done", 4))
        self.assertEqual(weights_of(self.folder / "a/last"), weights_of(self.folder / "b/last"))
        self.assertEqual((self.folder / "a/journal").read_bytes(), (self.folder / "b/journal").read_bytes())
        self.assertEqual(result.test.accuracy, done["test"]["accuracy"])
        self.assertEqual(result.dev.loss, done["dev"]["loss"])
        self.assertEqual((result.metric, result.test.n, result.test_count), ("accuracy", 16, 16))
        self.assertTrue(math.isnan(result.dev.em))
        self.assertEqual([step for step, evaluated in told if not evaluated], [1, 2, 3, 4])
        self.assertIn((2, True), told)
        summary = started[0]
        self.assertEqual((summary.family, summary.steps, summary.train), ("roberta", 4, 464))
        self.assertEqual(summary.options["k"], "2")
        self.assertTrue(math.isnan(summary.step_seconds))

    def test_stop_and_resume(self):
        """Ended by a result, by an exception and by Ctrl-C; the resumed run has the bits of one that was not."""
        whole = zest.train(MODEL, TASK, out=self.folder / "whole", **SMALL)
        folder = self.folder / "run"
        result = zest.train(MODEL, TASK, out=folder, on_progress=lambda p: p.step == 1, **SMALL)
        self.assertEqual((result.reason, result.step), ("interrupted", 1))

        def fail(progress):
            raise KeyError("mine")

        with self.assertRaisesRegex(KeyError, "mine"):
            zest.resume(folder, on_progress=fail)
        with zest.Run(folder).journal() as journal:
            self.assertLess(len(journal), 4)
        with self.assertRaises(KeyboardInterrupt):
            zest.resume(folder, on_start=lambda summary: os.kill(os.getpid(), signal.SIGINT))
        result = zest.resume(folder)
        self.assertEqual((result.reason, result.step), ("done", 4))
        self.assertEqual(repr(result.test), repr(whole.test))
        self.assertEqual(weights_of(folder / "last"), weights_of(self.folder / "whole/last"))

    def test_evaluate(self):
        counted = []
        found = zest.evaluate(
            MODEL, TASK, split="dev", dev_size=16, on_evaluate=lambda done, total: counted.append((done, total))
        )
        done = subprocess.run(
            [ZEST, "eval", MODEL, "--task", TASK, "--split", "dev", "--dev-size", "16", "--json"],
            stdout=subprocess.PIPE,
            check=True,
        )
        self.assertIn(repr(found.metrics.accuracy), done.stdout.decode())
        self.assertEqual((found.is_run, found.metric, found.metrics.n), (False, "accuracy", 16))
        self.assertEqual(counted[-1], (16, 16))
        with self.assertRaises(ZeroDivisionError):
            zest.evaluate(MODEL, TASK, split="dev", dev_size=16, on_evaluate=lambda done, total: 1 / 0)

    def test_predict(self):
        """Rows of one's own: the command line's answers. A split: its accuracy is that of an evaluation."""
        texts = ["A lovely film.", 'She said "no"\tand left.', "I want my money back. naïve"]
        predictor = zest.Predictor(MODEL, TASK)
        answers = predictor(texts)
        column = predictor.columns[0]
        self.assertEqual(answers[0].text, predictor.classes[answers[0].choice])
        rows = self.folder / "rows.jsonl"
        rows.write_text("".join(json.dumps({column: text}) + "\n" for text in texts))
        done = subprocess.run(
            [ZEST, "predict", MODEL, "--task", TASK, "--input", rows, "--json"], stdout=subprocess.PIPE, check=True
        )
        told = [json.loads(line) for line in done.stdout.splitlines()]
        for answer, row in zip(answers, told):
            self.assertEqual(answer.text, row["prediction"])
            self.assertEqual(answer.probabilities.shape, (2,))
            self.assertAlmostEqual(answer.probabilities.sum(), 1, places=12)
            self.assertEqual(answer.choice, int(answer.probabilities.argmax()))
            for name, value in zip(predictor.classes, answer.probabilities):
                self.assertAlmostEqual(row["probabilities"][name], value, places=6)
        self.assertEqual(len(answers), len(told))
        again = predictor([{column: text} for text in texts])
        self.assertEqual([a.probabilities.tolist() for a in again], [a.probabilities.tolist() for a in answers])
        dev = zest.Predictor(MODEL, TASK, dev_size=16).split("dev")
        right = [answer.choice == answer.label for answer in dev]
        found = zest.evaluate(MODEL, TASK, split="dev", dev_size=16)
        self.assertEqual(sum(right) / len(right), found.metrics.accuracy)
        self.assertEqual(predictor([]), [])
        with self.assertRaises(zest.Error):
            predictor([{"colour": "red"}])
        predictor.close()
        self.assertRaises(zest.StateError, predictor, ["x"])

    def test_dry_run_writes_nothing(self):
        summary = zest.dry_run(MODEL, TASK, out=self.folder / "none", **SMALL)
        self.assertGreater(summary.step_seconds, 0)
        self.assertFalse((self.folder / "none").exists())

    def test_options_tasks_and_errors(self):
        names = {option.name: option for option in zest.train_options()}
        self.assertEqual(names["k"].kind, "count")
        self.assertIn("split", {option.name for option in zest.train_options("eval")})
        self.assertIn("SST-2", {task.name for task in zest.tasks()})
        for words, options in (("colour", dict(colour=1)), ("rho", dict(rho=-1)), ("method", dict(method="magic"))):
            with self.assertRaisesRegex(zest.ArgumentError, words):
                zest.train(MODEL, TASK, **options)
        with self.assertRaises(OSError):
            zest.train(MODEL, self.folder / "none.task")
        with self.assertRaises(zest.Error):
            zest.resume(self.folder / "none")
        with self.assertRaises(zest.ArgumentError):
            zest.train_options("dance")
