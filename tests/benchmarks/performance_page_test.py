#!/usr/bin/env python3
"""A page made of small result files, what is refused in them, and the links to the real pages."""

import contextlib
import copy
import io
import json
import pathlib
import re
import tempfile
import unittest

import performance_page

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / "docs" / name for name in performance_page.PAGES]
TABLE = {"context": "In ms.", "machine": "A", "commit": "0123456", "date": "2026-11-26",
         "commands": ["atoll bench", "atoll train"],
         "columns": ["model", "ms", ""], "rows": [["GCN", [1429, 1409, 1501], ""]],
         "notes": ["A note."]}


def anchors(page):
    """The names by which GitHub finds a page's headings."""
    headings = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


class PageTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.results = pathlib.Path(folder.name)
        self.write("machines", {"A": "two cores", "B": "a GPU"})

    def write(self, name, value):
        (self.results / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")

    def page(self, tables):
        self.write("speed", {"title": "Speed", "tables": tables})
        contents = {"page.md": ("# Figures\n", ["speed"])}
        return performance_page.pages(self.results, contents)["page.md"]

    def refused(self, part, **changes):
        table = copy.deepcopy(TABLE)
        for field, value in changes.items():
            if value is None:
                del table[field]
            else:
                table[field] = value
        with self.assertRaises(performance_page.BadResult) as caught:
            self.page([table])
        self.assertIn("speed.json: table 1", str(caught.exception))
        self.assertIn(part, str(caught.exception))

    def test_a_table_has_its_source_in_the_head_of_its_first_column(self):
        page = self.page([TABLE])
        self.assertTrue(page.endswith(
            "## Speed\n\nIn ms.\n\n"
            "| model<br>machine A, commit 0123456, 2026-11-26<br>`atoll bench`<br>`atoll train` "
            "| ms | |\n|---|---|---|\n| GCN | 1,429 (1,409 - 1,501) | |\n\n* A note.\n"), page)
        self.assertIn("# Figures\n\n| machine | |\n|---|---|\n| A | two cores |\n\n## Speed", page)

    def test_numbers_keep_their_digits(self):
        table = json.dumps(dict(TABLE, rows=[["GCN", 0, ""]])).replace('"GCN", 0', '"GCN", 2.10')
        path = self.results / "speed.json"
        path.write_text(f'{{"title": "Speed", "tables": [{table}]}}', encoding="utf-8")
        self.assertIn("| GCN | 2.10 | |\n", performance_page.page("", [path], {"A": "two cores"}))

    def test_no_line_is_too_long_or_begins_a_list_by_chance(self):
        text = "word " * 18 + "a - b, `x --option value` " * 20
        lines = performance_page.wrapped(text, "* ", "  ")
        self.assertLessEqual(max(map(len, lines)), 100)
        self.assertEqual([line for line in lines[1:] if line.startswith("  - ")], [])
        self.assertEqual(" ".join(lines).split(), ["*"] + text.split())

    def test_every_figure_has_a_command_a_machine_and_a_commit(self):
        for field in ("commands", "machine", "commit"):
            self.refused(f"neither '{field}' nor a column", **{field: None})
        columns = dict(TABLE, columns=["command", "machine", "commit"], rows=[["x", "A", "y"]])
        for field in ("commands", "machine", "commit"):
            del columns[field]
        self.assertIn("| x | A | y |\n", self.page([columns]))

    def test_what_does_not_fit_is_named(self):
        self.refused("machine 'C' is not in machines.json, which has A, B", machine="C")
        self.refused("row 1: 1 cells for 3 columns", rows=[["GCN"]])
        self.refused("unknown field 'note'", note="A note.")

    def test_a_file_that_is_no_topic_is_refused(self):
        self.write("stray", {})
        with self.assertRaisesRegex(performance_page.BadResult, "stray.json: is no topic"):
            self.page([TABLE])

    def test_the_first_line_that_differs_is_found(self):
        self.assertIsNone(performance_page.difference("a\nb\n", "a\nb\n"))
        self.assertEqual(performance_page.difference("a\nc\n", "a\nb\n"), (2, "c", "b"))
        self.assertEqual(performance_page.difference("a", "a\nb"), (2, None, "b"))

    def test_check_names_the_page_and_line_that_was_edited(self):
        folder = str(self.results)
        self.assertEqual(performance_page.main(["--write", folder]), 0)
        self.assertEqual(performance_page.main(["--check", folder]), 0)
        for path in PAGES:
            edited = self.results / path.name
            text = edited.read_text(encoding="utf-8")
            lines = text.split("\n")
            edited.write_text("\n".join(lines[:4] + ["by hand"] + lines[5:]), encoding="utf-8")
            said = io.StringIO()
            with contextlib.redirect_stderr(said):
                self.assertEqual(performance_page.main(["--check", folder]), 1)
            self.assertIn(f"{edited}:5: is not what the result files give", said.getvalue())
            self.assertIn("by hand", said.getvalue())
            edited.write_text(text, encoding="utf-8")


class RealPagesTest(unittest.TestCase):
    def test_the_pages_are_what_the_result_files_give(self):
        self.assertEqual(performance_page.main(["--check", str(ROOT / "docs")]), 0)

    def test_pages_and_lines_stay_short(self):
        for path in PAGES:
            lines = path.read_text(encoding="utf-8").splitlines()
            self.assertLessEqual(len(lines), 250, path.name)
            for number, (line, after) in enumerate(zip(lines, lines[1:] + [""]), 1):
                if not after.startswith("|---"):  # heads of tables have the commands
                    self.assertLessEqual(len(line), 400, f"{path.name}:{number}")

    def test_links_to_the_pages_lead_to_headings(self):
        known = {path.name: anchors(path.read_text(encoding="utf-8")) for path in PAGES}
        for path in [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]:
            links = re.findall(r"\]\((?:docs/)?([\w-]*\.md|)#([^)]*)\)",
                               path.read_text(encoding="utf-8"))
            for name, anchor in links:
                name = name or path.name
                if name in known:
                    self.assertIn(anchor, known[name], f"{path.name} links to it")

    def test_links_of_the_pages_lead_to_headings_of_other_pages(self):
        for path in PAGES:
            for name, anchor in re.findall(r"\]\((\w[\w-]*\.md)(?:#([^)]*))?\)",
                                           path.read_text(encoding="utf-8")):
                text = (path.parent / name).read_text(encoding="utf-8")
                if anchor:
                    self.assertIn(anchor, anchors(text), name)


if __name__ == "__main__":
    unittest.main()
