"""The examples of docs/python.md and of the README give what the pages say."""

import doctest
import os
import re
import shutil

from support import ROOT, ZEST, Case


class Docs(Case):
    def test_page(self):
        self.check("docs/python.md", 8)

    def test_readme(self):
        self.check("README.md", 1)

    def check(self, page, least):
        text = (ROOT / page).read_text()
        blocks = re.findall(r"^```python\n(>>>.*?)^```$", text, re.DOTALL | re.MULTILINE)
        self.assertGreaterEqual(len(blocks), least)
        shutil.copytree(ROOT / "examples", self.folder / "examples")
        (self.folder / "bin").mkdir()
        (self.folder / "bin" / "zest").symlink_to(ZEST)
        before, path = os.getcwd(), os.environ["PATH"]
        os.chdir(self.folder)
        os.environ["PATH"] = f"{self.folder}/bin:{path}"
        try:
            test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, page, None, 0)
            failures = []
            runner = doctest.DocTestRunner(optionflags=doctest.REPORT_NDIFF)
            runner.run(test, out=failures.append)
        finally:
            os.chdir(before)
            os.environ["PATH"] = path
        self.assertFalse(failures, "".join(failures))
