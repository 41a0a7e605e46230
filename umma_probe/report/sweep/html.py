"""HTML: one self-contained page; no script, nothing fetched from elsewhere."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from umma_probe.report.sweep.words import (
    CASE_HEADER,
    GROUP_HEADER,
    case_row,
    group_rows,
    question_lines,
    question_note,
    target_line,
    verdict_line,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from umma_probe.harness.sweep.outcome import SweepResult

_STYLE = """
:root{--bg:#fbfbfa;--card:#fff;--ink:#1c1d1f;--soft:#6a6d73;--line:#e3e3e0;--good:#2f9e63;--bad:#d6453d}
@media(prefers-color-scheme:dark){:root{--bg:#141517;--card:#1c1e21;--ink:#e8e8e6;--soft:#9a9ea6;--line:#303338}}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:1280px;margin:0 auto;padding:32px 24px 64px}
h1{font-size:24px;margin:0}
h2{font-size:16px;margin:0 0 12px}
.sub{color:var(--soft);margin:2px 0 20px}
.card{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:20px;margin:0 0 16px}
.card{overflow-x:auto}
.badge{border-radius:999px;padding:3px 14px;color:#fff;font-weight:600;background:var(--bad)}
.badge.pass{background:var(--good)}
table{border-collapse:collapse;width:100%}
th{text-align:left;font-weight:500;color:var(--soft)}
th,td{padding:5px 14px 5px 0;border-bottom:1px solid var(--line);vertical-align:top}
.bad td{color:var(--bad)}
"""


def render(result: SweepResult) -> str:
    """The whole page."""
    title = escape(f"{result.name}: {result.verdict}")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
        f'<meta name="viewport" content="width=device-width,initial-scale=1">\n<style>{_STYLE}</style></head>\n'
        f"<body><main>\n" + "\n".join(_body(result)) + "\n</main></body></html>"
    )


def _body(result: SweepResult) -> Iterator[str]:
    badge = f'<span class="badge {result.verdict}">{result.verdict}</span>'
    yield f"<h1>{escape(result.name)} {badge}</h1>"
    lines = (result.title, target_line(result), verdict_line(result))
    yield f'<p class="sub">{"<br>".join(map(escape, lines))}</p>'
    yield _card("Entries", GROUP_HEADER, ((row, bool(row[-1])) for row in group_rows(result)))
    if bad := [entry for entry in result.results if not entry.ok]:
        yield _card("Not as expected", CASE_HEADER, ((case_row(entry), True) for entry in bad))
    if questions := question_lines(result):
        yield f'<p class="sub">{escape(question_note(result))}</p>'
        yield _card("Open questions", ("question", "case", "outcome"), ((row, False) for row in questions))
    yield _card("All cases", CASE_HEADER, ((case_row(entry), not entry.ok) for entry in result.results))
    versions = ", ".join(f"{name} {version}" for name, version in result.environment.get("versions", {}).items())
    yield f'<p class="sub">{escape(versions)} · {escape(str(result.environment.get("host", "")))}</p>'


def _card(title: str, header: Sequence[str], rows: Iterable[tuple[Sequence[str], bool]]) -> str:
    """A table; the flag of a row marks what is not as expected."""
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join(
        ('<tr class="bad">' if bad else "<tr>") + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
        for row, bad in rows
    )
    return f'<section class="card"><h2>{escape(title)}</h2><table><tr>{head}</tr>{body}</table></section>'
