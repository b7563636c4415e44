# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""README.md and the pages beside it: the example runs, links lead somewhere."""

import pathlib
import re

import pytest
from support.page_snippets import output_of_snippet, python_blocks

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md"]
PAGES += sorted(str(page.relative_to(ROOT)) for page in ROOT.glob("design/*.md"))


def test_readme_example_prints_what_it_says(tmp_path):
    (example,) = python_blocks(ROOT / "README.md")
    printed = output_of_snippet(example, tmp_path)
    promised = re.findall(r"^print\(.*\)  # (.*)$", example, re.M)
    assert promised
    assert printed.splitlines() == promised


def anchors(text):
    titles = re.findall(r"^#+ (.*)$", text, re.M)
    return {
        re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles
    }


@pytest.mark.parametrize("page", PAGES)
def test_readme_and_design_links_lead_somewhere(page):
    text = (ROOT / page).read_text()
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", text):
        name, _, anchor = target.partition("#")
        file = (ROOT / page).parent / name if name else ROOT / page
        assert file.exists(), f"{page} links to {target}"
        if anchor:
            assert anchor in anchors(file.read_text()), f"{page} links to {target}"


def test_readme_of_design_lists_every_page():
    index = (ROOT / "design/README.md").read_text()
    pages = {page.name for page in ROOT.glob("design/*.md")} - {"README.md"}
    assert set(re.findall(r"\]\((\w+\.md)\)", index)) == pages
