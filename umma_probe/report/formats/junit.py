"""JUnit XML: one test case for each check, for continuous integration."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

from umma_probe.record.schema import Verdict
from umma_probe.report.summary import parameters, target_line

if TYPE_CHECKING:
    from umma_probe.record.schema import Check, Report
    from umma_probe.report.formats import View


def render(report: Report, view: View) -> str:
    """One ``testsuite``; a check that fails is a failure, one that could not be decided is skipped, else an error."""
    verdicts = [Verdict(check.verdict) for check in report.checks]
    counts = {
        "tests": len(verdicts),
        "failures": sum(verdict is Verdict.FAIL for verdict in verdicts),
        "skipped": sum(verdict is Verdict.UNDECIDED for verdict in verdicts),
        "errors": sum(verdict in (Verdict.HANG, Verdict.FAULT, Verdict.ERROR) for verdict in verdicts),
    }
    seconds = f"{report.timing.compile_s + report.timing.run_s:.3f}"
    suite = ElementTree.Element("testsuite", name=report.probe, time=seconds)
    for name, count in counts.items():
        suite.set(name, str(count))
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in [("target", target_line(report)), ("verdict", report.verdict), *parameters(report)]:
        ElementTree.SubElement(properties, "property", name=name, value=value)
    for check in report.checks:
        _case(suite, report, check)
    ElementTree.indent(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suite, encoding="unicode")


def _case(suite: ElementTree.Element, report: Report, check: Check) -> None:
    case = ElementTree.SubElement(suite, "testcase", classname=f"umma-probe.{report.probe}", name=check.name)
    verdict = Verdict(check.verdict)
    if verdict is Verdict.PASS:
        return
    tag = {Verdict.FAIL: "failure", Verdict.UNDECIDED: "skipped"}.get(verdict, "error")
    message = f"expected {check.expected}, actual {check.actual}"
    ElementTree.SubElement(case, tag, message=message).text = check.message
