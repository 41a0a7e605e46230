"""Finding files: the supplied ones are whole, and every fault of a file is told with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from umma_probe.assets import asset_dir
from umma_probe.errors import ConfigError
from umma_probe.findings.loader import FOLDER, findings, load_finding
from umma_probe.findings.schema import Status
from umma_probe.spec.shapes import SOURCE_CONFLICTS

OBSERVED_ON_SILICON = {
    "skipped-columns", "st-16x256b-second-use", "unscaled-accumulators", "fence-after-mma", "four-warps", "k16-tiles",
    "n16-sub-tiles",
}  # fmt: skip

FAULTY = """\
id: Faulty
title: 3
date: yesterday
recorded: unknown
device: x
origin: x
status: solved
observed: []
concluded: x
cannot_show: [a]
assessment: a
settld_by: b
evidence:
  - {source: ptxx, anchor: a}
  - {source: ptx, evidence: rumour, anchor: a}
conflicts: [i8-n25]
reports: [absent.json]
bears_on:
  - {probe: tmem-layuot, expect: {verdict: pass}, means: x}
  - {probe: tmem-layout, params: {mm: 3}, policies: [eagre], expect: {occupancy.zero: ""}, means: x, settles: done}
  - {probe: tmem-layout, expect: pass}
  - {probe: tmem-layout, answers: [{when: {verdict: bad}, says: x}, {when: 3, says: x}], means: x, arch: sm_1000}
assembles:
  - {ptx: "trap;", expect: taken, means: x}
  - {ptx: "trap;", expect: accepted, says: x, means: x}
last_verified: {date: 1, target: x}
"""


def test_the_historic_observations_are_there_and_none_is_claimed_as_ours() -> None:
    registry = findings()
    assert set(registry) >= OBSERVED_ON_SILICON
    for name in OBSERVED_ON_SILICON:
        entry = registry[name]
        assert (entry.date, "B200" in entry.device) == ("unknown", True)
        assert "umma-probe has measured nothing on a B200" in entry.origin
        assert entry.status in (Status.OPEN, Status.EXPLAINED)
    for name in set(registry) - OBSERVED_ON_SILICON:
        entry = registry[name]
        ours = entry.device.startswith("NVIDIA H200") and entry.status is Status.REPRODUCED
        assert entry.device.startswith("none") or (ours and "reports/silicon-h200" in entry.origin)


def test_every_known_conflict_of_sources_has_exactly_one_finding() -> None:
    told = [name for entry in findings().values() for name in entry.conflicts]
    assert sorted(told) == sorted(conflict.name for conflict in SOURCE_CONFLICTS)


def test_the_skipped_columns_are_told_apart_from_their_conclusion() -> None:
    entry = findings()["skipped-columns"]
    assert entry.status is Status.OPEN
    assert any("32-35 and 48-51" in line for line in entry.observed)
    assert not any("skip" in line for line in entry.observed)
    assert any("skips 8 columns" in line for line in entry.concluded)
    clean = entry.bears_on[0]
    assert (clean.probe, clean.params, clean.settles) == ("tmem-layout", {"m": 128, "n": 64}, Status.REFUTED)
    planted = [case for case in entry.bears_on if "inject" in case.params]
    assert {case.params["fill"] for case in planted} == {"zero", "sentinel"}
    assert {case.params["inject"] for case in planted} == {"operand-hole:512-575,768-831"}


def test_all_faults_at_once_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "faulty.yaml"
    path.write_text(FAULTY)
    with pytest.raises(ConfigError) as caught:
        load_finding(path)
    message = caught.value.render()
    for line, part in [
        (0, "id: is 'Faulty', must be lower-case"),
        (2, "title: is 3"),
        (3, "date: is 'yesterday', must be an ISO date or unknown"),
        (4, "recorded: is 'unknown', must be an ISO date"),
        (7, "unknown status 'solved'"),
        (8, "observed: is empty"),
        (9, "concluded: is 'x', must be a list"),
        (12, "unknown key 'settld_by'; did you mean settled_by?"),
        (14, "unknown source 'ptxx'; did you mean ptx"),
        (15, "unknown evidence 'rumour'"),
        (16, "unknown conflict 'i8-n25'; did you mean i8-n24"),
        (17, "there is no reports/absent.json"),
        (19, "unknown probe 'tmem-layuot'"),
        (20, "unknown option of tmem-layout 'mm'"),
        (20, "policy is 'eagre'"),
        (20, "unknown part 'zero'"),
        (20, "unknown settles 'done'"),
        (21, "expect: must be a mapping"),
        (21, "key 'means' is missing"),
        (22, "unknown verdict 'bad'"),
        (22, "answers[1].when: must be a mapping"),
        (22, "unknown key 'means'"),
        (22, "unknown arch 'sm_1000'"),
        (24, "unknown expect 'taken'"),
        (25, "says: is given, must be left out"),
        (26, "last_verified.date: is 1"),
        (26, "key 'version' is missing"),
    ]:
        where = f"faulty.yaml:{line}:" if line else ""
        assert any(where in text and part in text for text in message.splitlines()), (line, part, message)


def test_the_name_is_the_files(tmp_path: Path) -> None:
    text = (asset_dir(FOLDER) / "four-warps.yaml").read_text()
    (tmp_path / "other.yaml").write_text(text)
    with pytest.raises(ConfigError, match="must be 'other' as the file"):
        load_finding(tmp_path / "other.yaml")


def test_a_finding_needs_evidence(tmp_path: Path) -> None:
    text = (asset_dir(FOLDER) / "four-warps.yaml").read_text()
    start, stop = text.index("evidence:"), text.index("bears_on:")
    (tmp_path / "four-warps.yaml").write_text(text[:start] + text[stop:])
    with pytest.raises(ConfigError, match="neither 'evidence' nor 'reports'"):
        load_finding(tmp_path / "four-warps.yaml")
