#!/usr/bin/env python3
"""The script of a report's page, run by Node on the data of a real page: what it shows of the runs
where the pointer is. Skipped (exit code 77) without Node."""

import html
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from cli_support import run, write

NODE = shutil.which("node") or shutil.which("nodejs")
SKIPPED = 77
# Enough of a page for the script to think that it is in one.
PAGE = """
class Element {
  constructor() { this.children = []; this.style = {}; this.handlers = {}; this.textContent = "";
                  this.offsetWidth = 100; this.hidden = false; this.dataset = {}; }
  append(...children) { this.children.push(...children); }
  replaceChildren() { this.children = []; }
  addEventListener(name, handler) { this.handlers[name] = handler; }
  getBoundingClientRect() { return {left: 10, width: 280}; }
  get text() { return this.textContent + this.children.map((child) =>
    typeof child === "string" ? child : child.text).join(" "); }
}
const charts = JSON.parse(process.argv[2]).map((chart) => {
  const svg = new Element(); svg.dataset.chart = chart; return svg; });
const body = new Element();
globalThis.window = {innerWidth: 1000};
globalThis.document = {body, createElement: () => new Element(), querySelectorAll: () => charts};
"""
POINT = """
const shown = [];
for (const clientX of JSON.parse(process.argv[3])) {
  charts[0].handlers.pointermove({clientX, clientY: 5});
  const tip = body.children[0];
  shown.push([tip.hidden, tip.text.replace(/ +/g, " ").trim()]);
}
charts[0].handlers.pointerleave();
shown.push([body.children[0].hidden, ""]);
console.log(JSON.stringify(shown));
"""


class ReportScriptTest(unittest.TestCase):
    def test_values_under_the_pointer(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, losses in (("first", [4, 2, 1]), ("</script>", [3, 1e21])):
                write(os.path.join(folder, "runs", name.replace("/", "_"), "metrics.jsonl"),
                      "".join(json.dumps({"epoch": k + 1, "loss": loss}) + "\n"
                              for k, loss in enumerate(losses)))
            names = sorted(os.listdir(os.path.join(folder, "runs")))
            result = run(["report"] + [f"runs/{name}" for name in names], folder)
            self.assertEqual(result.returncode, 0, result.stderr)
            with open(os.path.join(folder, "report.html"), encoding="utf-8") as file:
                page = file.read()
        scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
        self.assertEqual(len(scripts), 1)
        charts = [html.unescape(found) for found in re.findall(r'data-chart="([^"]*)"', page)]
        self.assertEqual(len(charts), 1)
        # Epochs 1 to 3 lie at 64 to 544 of 560, which are 280 pixels from 10 on.
        pointed = [10 + at / 2 for at in (0, 64, 180, 190, 420, 430, 560)]
        shown = subprocess.run([NODE, "-", json.dumps(charts), json.dumps(pointed)],
                               input=PAGE + scripts[0] + POINT, capture_output=True, text=True,
                               check=True).stdout
        first = [False, "epoch 1 <_script> 3 first 4"]
        second = [False, "epoch 2 <_script> 1e+21 first 2"]
        third = [False, "epoch 3 first 1"]
        self.assertEqual(json.loads(shown),
                         [first, first, first, second, second, third, third, [True, ""]])


if __name__ == "__main__":
    if NODE is None:
        print("SKIPPED: Node is not here")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)
