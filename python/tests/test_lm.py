"""Language models: against the command line, against each other's definitions, and against transformers."""

import gc
import json
import math
import os
import shutil
import struct
import subprocess
import unittest

import numpy as np
from support import ROOT, ZEST, Case

import zest

MASKED = ROOT / "examples" / "roberta-tiny"
TEXTS = ["A good day.", "", "it's </s> 42 naïve \U0001f600 tests\n\n", " the film was not bad at all"]


def log_softmax(logits):
    """In float64."""
    logits = np.asarray(logits, np.float64)
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def write_causal(folder):
    """A small Llama with random weights and the tokenizer of the masked model."""
    config = dict(
        model_type="llama", architectures=["LlamaForCausalLM"], vocab_size=4096, hidden_size=32, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, intermediate_size=48, hidden_act="silu",
        max_position_embeddings=64, rms_norm_eps=1e-5, rope_theta=10000.0, tie_word_embeddings=False,
        torch_dtype="float32", bos_token_id=0, eos_token_id=2,
    )  # fmt: skip
    rng, tensors = np.random.default_rng(1), {}
    sizes = dict(q=(32, 32), k=(16, 32), v=(16, 32), o=(32, 32))
    for layer in range(2):
        at = f"model.layers.{layer}."
        for name, shape in sizes.items():
            tensors[f"{at}self_attn.{name}_proj.weight"] = rng.normal(0, 0.2, shape)
        for name, shape in dict(gate=(48, 32), up=(48, 32), down=(32, 48)).items():
            tensors[f"{at}mlp.{name}_proj.weight"] = rng.normal(0, 0.2, shape)
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{at}{name}.weight"] = 1 + rng.normal(0, 0.1, 32)
    tensors["model.embed_tokens.weight"] = rng.normal(0, 1, (4096, 32))
    tensors["model.norm.weight"] = 1 + rng.normal(0, 0.1, 32)
    tensors["lm_head.weight"] = rng.normal(0, 1, (4096, 32))
    header, data = {}, b""
    for name, tensor in tensors.items():
        raw = tensor.astype("<f4").tobytes()
        header[name] = dict(dtype="F32", shape=list(tensor.shape), data_offsets=[len(data), len(data) + len(raw)])
        data += raw
    text = json.dumps(header).encode()
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    for name in ("vocab.json", "merges.txt", "tokenizer_config.json"):
        shutil.copy(MASKED / name, folder / name)
    return folder


class LMCase(Case):
    def setUp(self):
        super().setUp()
        self.causal_folder = write_causal(self.folder / "causal")
        self.masked, self.causal = zest.LM(MASKED), zest.LM(self.causal_folder)


class Tokens(LMCase):
    def test_same_as_the_command_line(self):
        for text in TEXTS:
            if "\n" in text:
                continue  # a line of the command line
            for special in (True, False):
                flag = "--special" if special else "--no-special"
                done = subprocess.run(
                    [ZEST, "tokenize", MASKED, "--text", text, "--ids", flag], capture_output=True, check=True
                )
                ids = self.masked.encode(text, add_special_tokens=special)
                self.assertEqual(ids.tolist(), [int(word) for word in done.stdout.split()], text)

    def test_round_trip(self):
        tokenizer = zest.LM.tokenizer(MASKED)
        self.assertFalse(tokenizer.info.has_weights)
        for text in TEXTS:
            ids = tokenizer.encode(text, add_special_tokens=False, literal=True)
            self.assertEqual(ids.dtype, np.int32)
            self.assertEqual(tokenizer.decode(ids), text)
            self.assertEqual(self.masked.encode(text, False, True).tolist(), ids.tolist())
            self.assertEqual(tokenizer.decode(tokenizer.encode(text, literal=True), skip_special_tokens=True), text)
        ids = tokenizer.encode("A good day.")
        self.assertEqual([tokenizer.token_id(tokenizer.token(i)) for i in ids], ids.tolist())
        self.assertEqual((ids[0], ids[-1]), (tokenizer.bos_token_id, tokenizer.eos_token_id))
        self.assertTrue(tokenizer.is_special(int(ids[0])) and not tokenizer.is_special(int(ids[1])))
        self.assertEqual(tokenizer.decode(ids, True, first=3), " day.")
        self.assertIsNone(tokenizer.token_id("no such token"))
        self.assertEqual(tokenizer.single_token(" good"), tokenizer.token_id("Ġgood"))
        self.assertRaises(zest.ArgumentError, tokenizer.single_token, " a very good day")
        self.assertRaises(IndexError, tokenizer.token, 10**6)
        self.assertRaises(zest.Error, tokenizer.score, "x")
        self.assertRaises(zest.ArgumentError, tokenizer.decode, [0.5])
        self.assertRaises(zest.ArgumentError, tokenizer.decode, [-1])


class Forward(LMCase):
    def test_score_is_that_of_the_command_line(self):
        for lm, folder in ((self.masked, MASKED), (self.causal, self.causal_folder)):
            for text in ("A good day.", " the film was not bad at all"):
                told = self.zest("score", folder, "--text", text, "--json")["results"][0]
                score = lm.score(text)
                self.assertEqual(score.tokens, told["tokens"])
                self.assertEqual(score.log_probability, told["log_probability"])
                self.assertAlmostEqual(score.perplexity / told["perplexity"], 1, places=14)

    def test_losses_follow_from_logits(self):
        """The definitions in zest_lm.h, computed from logits with NumPy in float64."""
        texts = ["A good day.", "the film was not bad at all, it was good"]
        losses = self.causal.losses(texts)
        expected, tokens = [], 0
        for text in texts:
            ids = self.causal.encode(text)
            predicted = log_softmax(self.causal.logits(ids))[:-1]
            expected.append(-predicted[np.arange(ids.size - 1), ids[1:]].sum())
            tokens += ids.size - 1
            np.testing.assert_allclose(
                self.causal.score(text).log_probabilities[1:], predicted[np.arange(ids.size - 1), ids[1:]], rtol=1e-5
            )
        np.testing.assert_allclose(losses, expected, rtol=1e-6)
        self.assertAlmostEqual(self.causal.mean_loss(texts), sum(expected) / tokens, places=5)

        words = [self.masked.token_id("Ġgood"), self.masked.token_id("Ġbad")]
        batch = self.masked.batch()
        batch.set_label_words(words)
        for answer, text in enumerate(["A lovely film. It was<mask>.", "Never again, it was<mask>!"]):
            batch.add_masked(text, answer)
        expected, best = [], []
        for answer, text in enumerate(["A lovely film. It was<mask>.", "Never again, it was<mask>!"]):
            ids = self.masked.encode(text)
            at = ids.tolist().index(self.masked.mask_token_id)
            row = log_softmax(self.masked.logits(ids, [at])[0, words])
            expected.append(-row[answer])
            best.append(int(row.argmax()))
        np.testing.assert_allclose(self.masked.losses(batch), expected, rtol=1e-6)
        self.assertAlmostEqual(self.masked.mean_loss(batch), np.mean(expected), places=6)
        self.assertEqual(self.masked.choose(batch).tolist(), best)

        mlm = self.masked.batch()
        ids = self.masked.encode("A<mask> day<mask>")
        targets = {2: 683, 4: 17}
        mlm.add_mlm(ids, targets)
        rows = log_softmax(self.masked.logits(ids, list(targets)))
        np.testing.assert_allclose(self.masked.losses(mlm), [-(rows[0, 683] + rows[1, 17])], rtol=1e-6)

        prompt, options = self.causal.encode("It was", True)[:-1], [" good", " very bad indeed"]
        choices = self.causal.batch()
        choices.add_choices(prompt, options, 1)
        scores = []
        for option in options:
            more = self.causal.encode(option, add_special_tokens=False)
            rows = log_softmax(self.causal.logits(np.concatenate([prompt, more])))[prompt.size - 1 : -1]
            scores.append(rows[np.arange(more.size), more].mean())
        np.testing.assert_allclose(self.causal.losses(choices), [-log_softmax(scores)[1]], rtol=1e-6)
        self.assertEqual(self.causal.choose(choices).tolist(), [int(np.argmax(scores))])

    def test_generate(self):
        prompts = ["A good day", "the film"]
        for prompt in prompts:
            told = self.zest("generate", self.causal_folder, "--prompt", prompt, "--json", "--max-tokens", 9)
            self.assertEqual(self.causal.generate(prompt, 9), told["results"][0]["text"])
        self.assertEqual(self.causal.generate(prompts, 9), [self.causal.generate(p, 9) for p in prompts])
        # greedy: each token has the largest logit
        ids = self.causal.encode(prompts[0])
        new = self.causal.generate_ids([prompts[0]], 5, ignore_eos=True)[0]
        for step, token in enumerate(new):
            self.assertEqual(self.causal.logits(np.concatenate([ids, new[:step]]))[-1].argmax(), token)
        stopped = self.causal.generate_ids([ids], 5, stops=[int(new[2])], ignore_eos=True)[0]
        self.assertEqual(stopped.tolist(), new[: new.tolist().index(new[2]) + 1].tolist())
        seen = []
        self.causal.generate_ids([ids], 5, ignore_eos=True, on_token=lambda p, t: seen.append((p, t)) or len(seen) == 2)
        self.assertEqual(seen, [(0, int(new[0])), (0, int(new[1]))])
        with self.assertRaises(ZeroDivisionError):
            self.causal.generate("x", on_token=lambda p, t: 1 / 0)
        with self.assertRaisesRegex(zest.ArgumentError, "fills masks"):
            self.masked.generate("x")

    def test_bad_input_changes_nothing(self):
        batch = self.causal.batch()
        batch.add_text("A good day.")
        before = self.causal.losses(batch).tolist()
        bad = [
            lambda: batch.add_text([10**6, 1]),
            lambda: batch.add_text("A", first=0),
            lambda: batch.add_text([1] * 1000),
            lambda: self.causal.batch().add_choices("x", [" a", " b"], 2),
            lambda: self.causal.batch().add_choices("x", [" a", " b"], -1),
            lambda: self.causal.batch().add_masked("x", 0, 0),
            lambda: self.masked.losses(batch),
            lambda: self.causal.logits("A good day.", [99]),
            lambda: self.causal.logits("A good day.", [-1]),
            lambda: self.causal.generate("x", 0),
            lambda: self.masked.batch().add_masked("no mask here", 0),
            lambda: zest.LM(MASKED, colour=1),
            lambda: zest.LM(MASKED, threads="many"),
        ]
        for number, call in enumerate(bad):
            with self.assertRaises(zest.ArgumentError, msg=str(number)):
                call()
        with self.assertRaisesRegex(zest.StateError, "one kind"):
            batch.add_choices("x", [" a", " b"], 0)
        self.assertEqual(self.causal.losses(batch).tolist(), before)
        with self.assertRaises(OSError):
            zest.LM(self.folder / "none")

    def test_save_and_lifetime(self):
        self.masked.save(self.folder / "saved")
        again = zest.LM(self.folder / "saved")
        self.assertEqual(again.fingerprint, self.masked.fingerprint)
        self.assertEqual(again.info, self.masked.info)
        self.assertNotEqual(again.fingerprint, self.causal.fingerprint)
        batch = again.batch()
        self.assertRaises(zest.StateError, again.close)  # its batch is alive
        batch.close()
        again.close()
        self.assertRaises(zest.StateError, again.score, "x")
        batch = zest.LM(self.causal_folder).batch(["A good day."])  # the batch keeps its model alive
        gc.collect()
        self.assertEqual(len(batch), 1)


class Tuning(LMCase):
    def flat(self, lm):
        """All weights, in the order of directions."""
        return np.concatenate([lm.read_tensor(tensor.name).reshape(-1) for tensor in lm.tensors])

    def put(self, lm, flat):
        for tensor in lm.tensors:
            size = math.prod(tensor.shape)
            lm.write_tensor(tensor.name, flat[:size].reshape(tensor.shape))
            flat = flat[size:]

    def test_a_step_against_its_definition(self):
        """Lanes are x + scale·v, written into a second model; the step is x - lr sum c_i v_i, from zest.tilt."""
        lm, other, texts = self.causal, zest.LM(self.causal_folder), ["A good day.", "the film was not bad at all"]
        before, batch = self.flat(lm), lm.batch(texts)
        seen = {}

        def objective(lanes):
            losses = lm.mean_loss(batch, lanes)
            np.testing.assert_allclose(lm.losses(batch, lanes).sum(axis=1) / self.tokens(texts), losses, rtol=1e-12)
            seen["lanes"] = [lanes.describe(i) for i in range(len(lanes))]
            seen["losses"] = losses.copy()
            return losses

        tuner = lm.tuner(objective, k=2, rho=0.01, lr=1e-3, t=2, seed=5)
        report = tuner.step()
        self.assertEqual((report.step, report.evaluations, len(seen["losses"])), (1, 4, 4))
        for (direction, scale), loss in zip(seen["lanes"], seen["losses"]):
            self.put(other, before + np.float32(scale) * direction.read())
            self.assertAlmostEqual(other.mean_loss(texts), loss, places=5)
        coefficients, _ = zest.tilt(seen["losses"], t=2, rho=0.01)
        moved = sum(c * d.read().astype(float) for c, (d, _) in zip(coefficients, seen["lanes"][0::2]))
        np.testing.assert_allclose(self.flat(lm) - before, -1e-3 * moved, atol=5e-7)  # float32 near 4
        self.assertGreater(np.abs(moved * 1e-3).max(), 1e-4)

    def tokens(self, texts):
        return sum(self.causal.encode(text).size - 1 for text in texts)

    def test_journal_replay_resume(self):
        """An objective in Python that no gradient could have: the error rate, and a bit of the loss."""
        words = [self.masked.token_id("Ġgood"), self.masked.token_id("Ġbad")]

        def tune(lm, steps, journal, resume=False):
            batch = lm.batch()
            batch.set_label_words(words)
            for answer, text in enumerate(["A lovely film. It was<mask>.", "Never again, it was<mask>!"]):
                batch.add_masked(text, answer)
            answers = np.array([0, 1])

            def objective(lanes):
                return (lm.choose(batch, lanes) != answers).mean(axis=1) + 0.1 * lm.mean_loss(batch, lanes)

            with lm.tuner(objective, k=2, steps=steps) as tuner:
                self.assertEqual(float(tuner.get("lr")), 1e-5)
                (tuner.resume_journal if resume else tuner.start_journal)(journal)
                tuner.set(steps=steps)
                result = tuner.run()
            batch.close()
            return result

        start = self.masked.fingerprint
        result = tune(self.masked, 6, self.folder / "whole")
        self.assertEqual((result.steps, result.x), (6, None))
        self.assertNotEqual(self.masked.fingerprint, start)
        again = zest.LM(MASKED)
        again.replay(self.folder / "whole", 0)
        self.assertEqual(again.fingerprint, start)
        again.replay(self.folder / "whole")
        self.assertEqual(again.fingerprint, self.masked.fingerprint)
        with self.assertRaises(zest.FormatError):  # other weights than the journal began with
            again.replay(self.folder / "whole")
        tune(zest.LM(MASKED), 3, self.folder / "parts")
        third = zest.LM(MASKED)
        tune(third, 6, self.folder / "parts", resume=True)
        self.assertEqual(third.fingerprint, self.masked.fingerprint)

    def test_failures(self):
        lm = self.causal
        start = lm.fingerprint

        def objective(lanes):
            raise KeyError("mine")

        tuner = lm.tuner(objective)
        self.assertRaises(KeyError, tuner.step)
        self.assertRaises(zest.Error, lm.tuner)  # one at a time
        self.assertRaises(zest.StateError, lm.close)
        lanes = tuner.ask()
        lm.mean_loss(["A good day."], lanes)
        with zest.Tuner([0.0]) as stranger:  # lanes of another tuner
            self.assertRaises(zest.Error, lm.mean_loss, ["A good day."], stranger.ask())
        tuner.tell([1.0] * len(lanes))
        self.assertRaises(zest.StateError, lm.mean_loss, ["A good day."], lanes)
        self.assertEqual(lm.fingerprint, start)  # equal losses move nothing
        tuner.close()
        name = lm.tensors[0].name
        self.assertRaises(KeyError, lm.read_tensor, "no such tensor")
        self.assertRaises(zest.ArgumentError, lm.write_tensor, name, [1.0])
        lm.write_tensor(name, lm.read_tensor(name) + 1)
        self.assertNotEqual(lm.fingerprint, start)
        lm.close()


class Transformers(LMCase):
    def setUp(self):
        try:
            import torch
            import transformers
        except ImportError:
            self.skipTest("transformers is not installed")
        super().setUp()
        os.environ["HF_HUB_OFFLINE"] = "1"
        self.torch, self.hf = torch, transformers

    def test_logits_losses_tokens_generate(self):
        torch, differences = self.torch, {}
        cases = (
            (self.masked, MASKED, self.hf.AutoModelForMaskedLM),
            (self.causal, self.causal_folder, self.hf.AutoModelForCausalLM),
        )
        for lm, folder, kind in cases:
            theirs = kind.from_pretrained(folder, dtype=torch.float32).eval()
            tokenizer = self.hf.RobertaTokenizer.from_pretrained(MASKED)
            for text in TEXTS:
                ids = lm.encode(text)
                self.assertEqual(ids.tolist(), tokenizer(text)["input_ids"], text)
                with torch.no_grad():
                    logits = theirs(torch.tensor(ids[None].astype(np.int64))).logits[0].numpy()
                difference = np.abs(lm.logits(ids) - logits).max() / np.abs(logits).max()
                differences[lm.info.family] = max(differences.get(lm.info.family, 0), difference)
                if lm.info.causal:
                    batch = torch.tensor(ids[None].astype(np.int64))
                    with torch.no_grad():
                        loss = theirs(batch, labels=batch).loss.item()
                    self.assertAlmostEqual(lm.mean_loss([ids]), loss, places=4)
            if lm.info.causal:
                ids = torch.tensor(lm.encode("A good day").astype(np.int64)[None])
                new = theirs.generate(ids, max_new_tokens=8, do_sample=False)[0, ids.shape[1] :]
                self.assertEqual(lm.generate_ids(["A good day"], 8)[0].tolist(), new.tolist())
        print(
            "largest difference from transformers, of the largest logit:", {k: float(v) for k, v in differences.items()}
        )
        self.assertLess(max(differences.values()), 1e-5)


class Runs(Case):
    def test_run_of_the_command_line(self):
        folder = self.folder / "run"
        subprocess.run(
            [ZEST, "train", "--model", MASKED, "--task", ROOT / "examples/reviews/reviews.task", "--out", folder]
            + "--steps 4 --k 2 --eval-every 2 --batch 16 --quiet --json --dev-size 16 --test-size 16".split(),
            stdout=subprocess.DEVNULL,
            check=True,
        )
        run = zest.Run(folder)
        self.assertEqual((run.options["k"], run.options["eval_every"]), ("2", "2"))
        steps, evals = run.table(), run.table("eval")
        self.assertEqual(steps["step"].tolist(), [1, 2, 3, 4])
        self.assertEqual(evals["step"].tolist(), [0, 2, 4])
        self.assertEqual(evals["part"].tolist(), ["dev"] * 3)
        self.assertEqual(run.log[-1]["kind"], "end")
        self.assertEqual(run.result["steps" if "steps" in run.result else "step"], 4)
        with run.journal() as journal:
            self.assertEqual(len(journal), 4)
            self.assertEqual(journal.option("k"), "2")
            for record, row in zip(journal, steps):
                self.assertEqual(record.losses.size, 4)
                self.assertAlmostEqual(record.losses.mean(), row["loss"], places=14)
                self.assertEqual(record.lr, row["lr"])
        start, last = run.model(0), run.model("last")
        self.assertEqual(start.fingerprint, zest.LM(MASKED).fingerprint)
        self.assertEqual(last.fingerprint, zest.LM(folder / "last").fingerprint)
        self.assertEqual(last.info.step, 4)
        told = []
        third = run.model(3, progress=lambda done, total: told.append((done, total)))
        subprocess.run(
            [ZEST, "replay", folder, "--step", "3", "--out", self.folder / "three", "--quiet"],
            stdout=subprocess.DEVNULL,
            check=True,
        )
        self.assertEqual(third.fingerprint, zest.LM(self.folder / "three").fingerprint)
        self.assertEqual(len({model.fingerprint for model in (start, third, last)}), 3)
        self.assertTrue(told)
        with self.assertRaises(ZeroDivisionError):
            run.model(3, progress=lambda done, total: 1 / 0)
        # a line that a kill cut short
        with (folder / "log.jsonl").open("a") as file:
            file.write('{"kind":"st')
        self.assertEqual(run.table()["step"].tolist(), [1, 2, 3, 4])
        self.assertRaises(zest.StateError, run.x)
        self.assertRaises(zest.Error, run.model, 99)

    def test_run_of_minimize(self):
        folder = self.folder / "run"
        told = self.zest(
            *("minimize", "--exec", "while read a b; do echo 1; done", "--dim", 2, "--steps", 5, "--start", 0.5),
            *("--out", folder, "--json"),
        )
        run = zest.Run(folder)
        self.assertEqual(run.x().tolist(), told["x"])
        self.assertEqual(run.x(0).tolist(), [0.5, 0.5])
        self.assertEqual(run.options["steps"], "5")
        self.assertRaises(zest.FileError, zest.Run, self.folder / "none")


if __name__ == "__main__":
    unittest.main()
