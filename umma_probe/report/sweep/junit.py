"""JUnit XML: one test case for each case, one suite for each entry, for continuous integration."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

from umma_probe.report.sweep.words import target_line

if TYPE_CHECKING:
    from umma_probe.harness.sweep.outcome import CaseResult, SweepResult

_TAGS = {"fail": "failure", "unforeseen": "failure", "undecided": "skipped"}
"""State to element; every other state that is not as expected is an ``error``."""


def render(result: SweepResult) -> str:
    """``testsuites``; a question's answer is a property of its case."""
    root = ElementTree.Element("testsuites", name=result.name)
    _count(root, list(result.results))
    for name, results in result.groups().items():
        suite = ElementTree.SubElement(root, "testsuite", name=f"{result.name}.{name}")
        _count(suite, results)
        properties = ElementTree.SubElement(suite, "properties")
        ElementTree.SubElement(properties, "property", name="target", value=target_line(result))
        for entry in results:
            _case(suite, entry)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode")


def _tag(entry: CaseResult) -> str:
    return "" if entry.ok else _TAGS.get(entry.state, "error")


def _count(element: ElementTree.Element, results: list[CaseResult]) -> None:
    tags = [_tag(entry) for entry in results]
    element.set("tests", str(len(tags)))
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        element.set(attribute, str(tags.count(tag)))
    element.set("time", f"{sum(entry.record.seconds for entry in results):.3f}")


def _case(suite: ElementTree.Element, entry: CaseResult) -> None:
    case = ElementTree.SubElement(suite, "testcase", classname=f"umma-probe.{entry.case.spec.probe}",
                                  name=entry.case.label, time=f"{entry.record.seconds:.3f}")  # fmt: skip
    if entry.answer is not None:
        properties = ElementTree.SubElement(case, "properties")
        ElementTree.SubElement(properties, "property", name="answer", value=entry.answer.says)
    if tag := _tag(entry):
        ElementTree.SubElement(case, tag, message=entry.detail).text = entry.record.message or entry.detail
