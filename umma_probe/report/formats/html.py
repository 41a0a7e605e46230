"""HTML: one self-contained page with every cell of Tensor Memory; no script, nothing fetched from elsewhere."""

from __future__ import annotations

from html import escape
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from umma_probe.record.schema import CellState, Verdict
from umma_probe.record.sets import ranges
from umma_probe.record.tmem_use import OTHERS, UNWRITTEN
from umma_probe.report.accuracy import MAP_LEGEND, TILE_HEADER, headline, map_lines, map_title, throughput, tile_rows
from umma_probe.report.picture import MEANINGS, present_states, sentences, states_of
from umma_probe.report.summary import MEANS, parameters, set_lines, target_line, timing_line
from umma_probe.report.tmem_use import (
    MOST_PICTURES,
    WRITER_HEADER,
    blocks_line,
    left_out,
    letters_of,
    role,
    use_title,
    writer_row,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from umma_probe.record.accuracy import Accuracy
    from umma_probe.record.lane_rows import Letters
    from umma_probe.record.schema import Check, Report, TmemRecord
    from umma_probe.record.tmem_use import TmemUse, Writer
    from umma_probe.report.formats import View

_SCALE = 2.25
"""Pixels a column."""
_LANE = 3.0
"""Pixels a lane."""
_LEFT, _TOP = 44, 24
_LOOKS = {state.value: (f"var(--{state.name.lower()})", meaning) for state, meaning in MEANINGS.items()}
_HUES = {"mma": 152, "st": 212, "cp": 38, "shift": 280}
"""Of the instructions that write Tensor Memory."""

_STYLE = """
:root{--bg:#fbfbfa;--card:#fff;--ink:#1c1d1f;--soft:#6a6d73;--line:#e3e3e0;--warn:#b27a00;
--right:#2f9e63;--missing:#d6453d;--zero:#e2a417;--misplaced:#9a4fd0;
--wrong:#b3123b;--unexpected:#ef6c2f;--operand:#4b83d6;--untouched:#ecece9}
@media(prefers-color-scheme:dark){:root{--bg:#141517;--card:#1c1e21;--ink:#e8e8e6;--soft:#9a9ea6;--line:#303338;
--warn:#e2a417;--right:#3fb877;--untouched:#26292d}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:1280px;margin:0 auto;padding:32px 24px 64px}
h1{font-size:24px;margin:0}
h2{font-size:16px;margin:0 0 12px}
.sub{color:var(--soft);margin:2px 0 20px}
.card{background:var(--card);border:1px solid var(--line);border-radius:10px}
.card{padding:20px;margin:0 0 16px;overflow-x:auto}
.head{display:flex;align-items:center;gap:14px;flex-wrap:wrap}
.badge{border-radius:999px;padding:3px 14px;color:#fff;font-weight:600;background:var(--soft)}
.pass{background:var(--right)}
.fail,.fault,.error{background:var(--missing)}
.undecided{background:var(--warn)}
.hang{background:var(--misplaced)}
table{border-collapse:collapse;width:100%}
th{text-align:left;font-weight:500;color:var(--soft)}
th,td{padding:6px 14px 6px 0;border-bottom:1px solid var(--line);vertical-align:top}
tr:last-child td{border-bottom:0}
code,.mono{font-family:ui-monospace,Menlo,Consolas,monospace;font-size:13px}
pre{white-space:pre-wrap;margin:0}
.chips{display:flex;flex-wrap:wrap;gap:6px}
.chip{border:1px solid var(--line);border-radius:6px;padding:1px 8px}
.chip b{font-weight:500;color:var(--soft)}
.swatch{display:inline-block;width:13px;height:13px;border-radius:3px;vertical-align:-2px}
.legend{display:flex;flex-wrap:wrap;gap:16px;color:var(--soft);margin:10px 0 0 44px}
.legend i{display:inline-block;width:11px;height:11px;border-radius:3px;margin-right:6px;vertical-align:-1px}
svg text{fill:var(--soft);font:11px ui-monospace,monospace}
.ok{color:var(--right)}
.no{color:var(--missing)}
.open{color:var(--warn)}
ul{margin:8px 0 0;padding-left:20px}
"""


def render(report: Report, view: View) -> str:
    """The whole page."""
    title = escape(f"{report.probe}: {report.verdict}")
    body = "\n".join(_body(report))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
        f'<meta name="viewport" content="width=device-width,initial-scale=1">\n<style>{_STYLE}</style></head>\n'
        f"<body><main>\n{body}\n</main></body></html>"
    )


def _body(report: Report) -> Iterator[str]:
    verdict = Verdict(report.verdict)
    badge = f'<span class="badge {verdict.value}">{verdict.value}</span>'
    yield f'<div class="head"><h1>{escape(report.probe)}</h1>{badge}</div>'
    yield f'<p class="sub">{escape(report.title)} · {escape(MEANS[verdict])}<br>{escape(target_line(report))}</p>'
    chips = "".join(f'<span class="chip mono"><b>{escape(n)}</b> {escape(v)}</span>' for n, v in parameters(report))
    yield _card("", f'<div class="chips">{chips}</div>')
    if report.tmem is not None:
        yield _tmem_card(report.tmem)
    yield from map(_tmem_use_card, report.tmem_use[:MOST_PICTURES])
    if rest := left_out(report.tmem_use):
        yield f'<p class="sub">{escape(rest)}</p>'
    if report.diagnosis is not None:
        evidence = "".join(f"<li>{escape(line)}</li>" for line in report.diagnosis.evidence)
        cause = f"<b>{escape(report.diagnosis.cause)}</b> ({escape(report.diagnosis.confidence)})<ul>{evidence}</ul>"
        yield _card("Cause", cause)
    yield _card("Checks", _checks(report.checks))
    if report.accuracy is not None:
        yield _card("Accuracy", _accuracy(report, report.accuracy))
    if sets := set_lines(report):
        rows = "".join(f'<tr><td>{name}</td><td class="mono">{escape(columns)}</td></tr>' for name, columns in sets)
        yield _card("Columns", f"<table>{rows}</table>")
    notes = [*report.notes, *(f"review: {entry.message} at {entry.where}" for entry in report.reviews)]
    if notes:
        yield _card("Notes", "<ul>" + "".join(f"<li>{escape(note)}</li>" for note in notes) + "</ul>")
    versions = ", ".join(f"{name} {version}" for name, version in report.environment.versions.items())
    yield f'<p class="sub">{timing_line(report)} · {escape(versions)} · {escape(report.environment.host)}</p>'


def _card(title: str, content: str) -> str:
    heading = f"<h2>{escape(title)}</h2>" if title else ""
    return f'<section class="card">{heading}{content}</section>'


def _accuracy(report: Report, accuracy: Accuracy) -> str:
    lines = [line for line in (headline(report), throughput(report), f"limit: {accuracy.limit}") if line]
    head = "".join(f"<th>{escape(name)}</th>" for name in TILE_HEADER)
    rows = "".join(
        "<tr>" + "".join(f'<td class="mono">{escape(cell)}</td>' for cell in row) + "</tr>"
        for row in tile_rows(accuracy)
    )
    drawn = accuracy.error_map
    picture_ = "" if drawn is None else (
        f"<p>{escape(map_title(drawn))}</p><pre class=\"mono\">{escape(chr(10).join(map_lines(drawn)))}</pre>"
        f'<p class="sub">{escape(MAP_LEGEND)}</p>'
    )  # fmt: skip
    return f"<p>{'<br>'.join(map(escape, lines))}</p><table><tr>{head}</tr>{rows}</table>{picture_}"


def _checks(checks: list[Check]) -> str:
    marks = {Verdict.PASS: ("ok", "✓"), Verdict.UNDECIDED: ("open", "?")}
    rows = []
    for check in checks:
        style, mark = marks.get(Verdict(check.verdict), ("no", "✗"))
        message = f"<br><pre class='mono'>{escape(check.message)}</pre>" if check.message else ""
        rows.append(
            f'<tr><td class="{style}">{mark}</td><td>{escape(check.name)}</td><td>{escape(check.expected)}</td>'
            f"<td>{escape(check.actual)}{message}</td></tr>"
        )
    return f"<table><tr><th></th><th>check</th><th>expected</th><th>actual</th></tr>{''.join(rows)}</table>"


def _tmem_card(tmem: TmemRecord) -> str:
    states = states_of(tmem)
    legend = "".join(
        f'<span><i style="background:var(--{state.name.lower()})"></i>{escape(MEANINGS[state])}</span>'
        for state in present_states(states)
    )
    lines = "".join(f"<li>{escape(line)}</li>" for line in sentences(states, fill=tmem.fill))
    if tmem.layout_recovered:
        recovered = f"recovered <b>{escape(tmem.layout_recovered)}</b>"
        lines += f"<li>layout: documented {escape(tmem.layout_expected)}, {recovered}</li>"
    return _card(
        "Tensor Memory",
        f'{_map(states, CellState.UNTOUCHED.value, _LOOKS)}<div class="legend">{legend}</div><ul>{lines}</ul>',
    )


def _tmem_use_card(use: TmemUse) -> str:
    looks = {
        writer.letter: (_shade(use, writer), f"{writer.instruction}, line {writer.line}") for writer in use.writers
    }
    looks.setdefault(OTHERS, ("var(--soft)", "further instructions"))
    head = "".join(f"<th>{escape(name)}</th>" for name in WRITER_HEADER)
    rows = "".join(
        f'<tr><td><i class="swatch" style="background:{looks[writer.letter][0]}"></i> {writer.letter}</td>'
        + "".join(f'<td class="mono">{escape(cell)}</td>' for cell in writer_row(writer)[1:]) + "</tr>"
        for writer in use.writers
    )  # fmt: skip
    shown = f"{_map(letters_of(use), UNWRITTEN, looks)}<table><tr>{head}</tr>{rows}</table>" if use.writers else ""
    return _card(f"Tensor Memory of {use_title(use)}", f'<p class="sub">{escape(blocks_line(use))}</p>{shown}')


def _shade(use: TmemUse, writer: Writer) -> str:
    """A hue for the kind of instruction, a lightness for which of that kind."""
    same = [other.letter for other in use.writers if role(other) == role(writer)]
    return f"hsl({_HUES[role(writer)]} 55% {38 + 12 * (same.index(writer.letter) % 4)}%)"


def _map(states: Letters, empty: str, looks: dict[str, tuple[str, str]]) -> str:
    """Lanes down, columns across; a rectangle for each run of equal columns over a run of equal lanes.

    :param empty: the letter that is not drawn.
    :param looks: letter to (colour, meaning).
    """
    lanes, columns = states.shape
    width, height = columns * _SCALE, lanes * _LANE
    parts = [
        f'<svg viewBox="0 0 {_LEFT + width + 8:g} {_TOP + height + 8:g}" width="100%" role="img" '
        f'aria-label="every Tensor Memory cell" shape-rendering="crispEdges">',
        f'<rect x="{_LEFT}" y="{_TOP}" width="{width:g}" height="{height:g}" fill="var(--untouched)"/>',
    ]
    parts += [
        f'<text x="{_LEFT + column * _SCALE:g}" y="{_TOP - 8}">{column}</text>' for column in range(0, columns, 32)
    ]
    parts += [
        f'<text x="{_LEFT - 8}" y="{_TOP + lane * _LANE + 9:g}" text-anchor="end">{lane}</text>'
        for lane in range(0, lanes, 16)
    ]
    parts += _rectangles(states, empty, looks)
    parts += [
        f'<path d="M{_LEFT} {_TOP + lane * _LANE:g}h{width:g}" stroke="var(--card)" stroke-width=".6"/>'
        for lane in range(32, lanes, 32)
    ]
    return "".join(parts) + "</svg>"


def _rectangles(states: Letters, empty: str, looks: dict[str, tuple[str, str]]) -> Iterator[str]:
    first = 0
    for _, group in groupby(range(len(states)), key=lambda lane: states[lane].tobytes()):
        count = len(list(group))
        row = states[first]
        for letter in np.unique(row):
            if letter == empty:
                continue
            colour, meaning = looks[str(letter)]
            for low, high in ranges(np.flatnonzero(row == letter)):
                what = f"lanes {first}-{first + count - 1}, columns {low}-{high}: {meaning}"
                box = (
                    f'x="{_LEFT + low * _SCALE:g}" y="{_TOP + first * _LANE:g}" '
                    f'width="{(high + 1 - low) * _SCALE:g}" height="{count * _LANE:g}"'
                )
                yield f'<rect {box} fill="{colour}"><title>{escape(what)}</title></rect>'
        first += count
