"""The reasons that the page on problems explains are those of the code."""

from __future__ import annotations

import re

from .pages import DOCS, ROOT


def test_each_reason_of_the_table_is_in_the_code() -> None:
    page = (DOCS / "guides" / "troubleshooting.md").read_text()
    table = page.split("| reason | meaning | what to try |")[1].split("\n\n")[0]
    reasons = re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)
    starts = [re.split(r": |'", r)[0].strip() for r in reasons]
    code = "".join(p.read_text() for p in sorted((ROOT / "analysis").rglob("*.py")))
    assert len(starts) >= 5
    assert [s for s in starts if s not in code] == []
