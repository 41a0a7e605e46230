"""Every format of one failing and one passing report: well-formed, complete, and without colour unless asked."""

import json
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from umma_probe.errors import ConfigError
from umma_probe.record.schema import (
    Cells,
    Check,
    Diagnosis,
    LaneRows,
    MisplacedCell,
    Occupancy,
    Report,
    SanitizerFinding,
    Target,
    TmemRecord,
)
from umma_probe.record.store import loads
from umma_probe.report.formats import FORMATS, View, render

SCRIPT = "<script>alert('&')</script>"


@pytest.fixture
def failing() -> Report:
    cells = Cells(
        {"right": 6144},
        [LaneRows("0-127", "R32 m4 R12 x16 .448")],
        [MisplacedCell(0, 48, [0, 48], [0, 49], ["0x42440000", "0x42c40000"])],
    )
    return Report(
        command="run",
        probe="tmem-layout",
        title="Accumulator layout",
        params={"m": 128, "ws": False, "a_type": "bf16", "swizzle": None},
        target=Target("model", "CPU model", "sm_100a", "13.5", reason="no CUDA driver", policy="lazy"),
        verdict="fail",
        checks=[
            Check("missing", "fail", "no cell", "512 cells", "columns 32-35 still hold the sentinel"),
            Check("readback", "pass", "agree", "agree"),
            Check("layout", "undecided", "-", SCRIPT, "a | b\nc"),
        ],
        tmem=TmemRecord(128, 512, cells, "D", "none"),
        occupancy=Occupancy("0-63", "0-31,36-63", "32-35", "", "", "0-127", "0-127", 2048),
        diagnosis=Diagnosis("cells of D were not written", "certain", ["512 cells hold the sentinel"]),
        reviews=[SanitizerFinding("wait", "no wait::ld", "k.cu:3", "CTA 0", 2)],
        notes=["a note"],
    )


def test_text_ends_with_the_sets_and_the_verdict(failing: Report) -> None:
    lines = render(failing, "text").splitlines()
    assert lines[-3:] == ["written 0-31,36-63", "missing 32-35", "verdict: fail"]
    assert "zero -" in lines
    text = "\n".join(lines)
    for part in (
        "auto took the model: no CUDA driver",
        "policy lazy",
        "columns 32-35: missing (sentinel) in all lanes",
        "documented D, recovered none",
        "columns 32-35 still hold the sentinel",
        "cause: cells of D were not written (certain)",
        "lane 0, column 48: expected (0, 48), found (0, 49) [0x42440000, 0x42c40000]",
        "no wait::ld at k.cu:3 (2 times)",
    ):
        assert part in text


def test_text_has_colour_only_on_request(failing: Report) -> None:
    assert "\x1b" not in render(failing, "text")
    assert "\x1b[" in render(failing, "text", View(colour=True, width=100))


def test_text_fits_a_narrow_terminal(failing: Report) -> None:
    lines = render(failing, "text", View(width=60)).splitlines()
    drawing = [line for line in lines if "█" in line and "written right" not in line]
    assert drawing
    assert max(map(len, drawing)) <= 60


def test_text_without_tensor_memory() -> None:
    report = Report("exec", "k", {}, Target("model", "CPU model", "sm_100a"), checks=[Check("C", "pass", "0", "0")])
    lines = render(report, "text").splitlines()
    assert lines[-1] == "verdict: pass"
    assert not any(line.startswith("written") for line in lines)


def test_json_is_the_record(failing: Report) -> None:
    assert loads(render(failing, "json")) == failing
    assert json.loads(render(failing, "json"))["verdict"] == "fail"


def test_markdown_tables_stay_whole(failing: Report) -> None:
    text = render(failing, "markdown")
    assert text.splitlines()[0] == "# tmem-layout: fail"
    assert "a \\| b<br>c" in text
    assert text.rstrip().endswith("**verdict: fail**")
    table = text.split("## Checks")[1].split("## Cause")[0]
    rows = [line for line in table.splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in rows} == {6}


class _Balance(HTMLParser):
    """Every opened element is closed, in order."""

    VOID = frozenset({"meta", "br", "rect", "path"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in self.VOID or tag == "rect":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag


def test_html_is_whole_and_self_contained(failing: Report) -> None:
    text = render(failing, "html")
    parser = _Balance()
    parser.feed(text)
    assert parser.open == []
    assert "script" not in parser.tags
    assert "svg" in parser.tags
    assert "http" not in text
    assert "lanes 0-127, columns 32-35: missing: the sentinel is still there" in text


def test_junit_counts(failing: Report) -> None:
    suite = ElementTree.fromstring(render(failing, "junit"))
    assert {name: suite.get(name) for name in ("tests", "failures", "skipped", "errors")} == {
        "tests": "3", "failures": "1", "skipped": "1", "errors": "0",
    }  # fmt: skip
    cases = {case.get("name"): [child.tag for child in case] for case in suite.iter("testcase")}
    assert cases == {"missing": ["failure"], "readback": [], "layout": ["skipped"]}


@pytest.mark.parametrize("format_", FORMATS)
def test_every_format_takes_a_report_of_a_hang(format_: str) -> None:
    message = "deadlock: nobody can go on\n  at k.ptx:12, CTA 0, warp 1"
    report = Report("run", "tmem-layout", {}, Target("model", "CPU model", "sm_100a"), verdict="hang",
                    checks=[Check("execution", "hang", "the kernel finishes", "deadlock", message)])  # fmt: skip
    assert "nobody can go on" in render(report, format_)


def test_unknown_format_names_the_nearest(failing: Report) -> None:
    with pytest.raises(ConfigError, match="did you mean html"):
        render(failing, "htm")
