"""What every format of a sweep's result words the same way."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from umma_probe.harness.sweep.outcome import CaseResult, SweepResult

GROUP_HEADER = ("entry", "probe", "cases", "as expected", "otherwise")
CASE_HEADER = ("entry", "case", "expected", "verdict", "")


def target_line(result: SweepResult) -> str:
    """``CPU model, sm_100a, NVRTC 13.5 (auto took the model: no CUDA driver)``."""
    target = result.target
    parts = [target.name, target.arch, f"NVRTC {target.nvrtc}"]
    if target.driver:
        parts.append(f"driver {target.driver}")
    if len(target.workers) > 1:
        parts.append(f"{len(target.workers)} GPUs")
    return ", ".join(parts) + (f" (auto took the model: {target.reason})" if target.reason else "")


def verdict_line(result: SweepResult) -> str:
    """``fail: 118 cases, 117 pass, 1 fail``."""
    counts = ", ".join(f"{number} {state}" for state, number in result.counts.items())
    total = len(result.results)
    return f"{result.verdict}: {total} case{'' if total == 1 else 's'}, {counts}"


def group_rows(result: SweepResult) -> list[tuple[str, str, str, str, str]]:
    """A row for each entry, after ``GROUP_HEADER``."""
    rows = []
    for name, results in result.groups().items():
        good = sum(entry.ok for entry in results)
        probes = ", ".join(dict.fromkeys(entry.case.spec.probe for entry in results))
        rows.append(
            (name, probes, str(len(results)), str(good), str(len(results) - good) if good < len(results) else "")
        )
    return rows


def case_row(entry: CaseResult) -> tuple[str, str, str, str, str]:
    """One case, after ``CASE_HEADER``."""
    from umma_probe.harness.sweep.outcome import expected_text

    return entry.case.group, entry.case.label, expected_text(entry), entry.record.verdict, entry.detail


def question_lines(result: SweepResult) -> list[tuple[str, str, str]]:
    """Question, cases, and what they say; cases that say the same stand together."""
    from umma_probe.harness.sweep.outcome import answer_word

    word = answer_word(result.target)
    rows = []
    for question, results in result.questions():
        by_answer: dict[str, list[str]] = {}
        for entry in results:
            text = f"{word}: {entry.answer.says}" if entry.answer else f"unforeseen: {entry.detail}"
            by_answer.setdefault(text, []).append(entry.case.label)
        rows += [(question, _cases(labels, len(results)), text) for text, labels in by_answer.items()]
    return rows


def _cases(labels: list[str], total: int) -> str:
    """Which of a question's cases; all of them need no list."""
    return f"all {total} cases" if len(labels) == total > 1 else "; ".join(labels)


def question_note(result: SweepResult) -> str:
    """What the answers are worth here; empty if there are none."""
    if not result.questions():
        return ""
    if result.target.on_model:
        return "On the model an answer is what it assumes; only a run on silicon settles a question."
    return "Answers of this device, driver and toolkit."
