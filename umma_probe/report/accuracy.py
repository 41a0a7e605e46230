"""The words and tables of an accuracy section, for every format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from umma_probe.record.sets import format_set

if TYPE_CHECKING:
    from umma_probe.record.accuracy import Accuracy, ErrorMap
    from umma_probe.record.schema import Report

TILE_HEADER = ("batch", "head", "rows", "cosine", "max error", "of limit", "max ULP", "wrong")
MAP_LEGEND = ". right   x wrong   0 wrong: zero   n NaN"


def headline(report: Report) -> str:
    """The figures in one line."""
    metrics, accuracy = report.metrics, report.accuracy
    if accuracy is None:
        return ""
    total = sum(accuracy.ulp_histogram.values())
    shares = ", ".join(f"{name}: {count / total:.1%}" for name, count in accuracy.ulp_histogram.items() if count)
    return (
        f"cosine {metrics['cosine']:.8f} (worst tile {metrics['min_tile_cosine']:.8f}, worst column "
        f"{metrics['min_column_cosine']:.8f}), max error {metrics['max_abs_error']:.3g} = {metrics['limit_used']:.0%} "
        f"of its limit, ULP {shares}"
    )


def throughput(report: Report) -> str:
    """Kernel time and rate, as information; empty on the model."""
    seconds, work = report.timing.kernel_s, report.metrics.get("flop", 0.0)
    return f"kernel {seconds * 1e3:.3f} ms, {work / seconds / 1e12:.1f} TFLOP/s" if seconds else ""


def tile_rows(accuracy: Accuracy) -> list[tuple[str, ...]]:
    """One row a query tile of a head, the worst first."""
    tiles = sorted(accuracy.tiles, key=lambda tile: (-tile.wrong, tile.cosine))
    return [
        (
            str(tile.batch),
            str(tile.head),
            tile.rows,
            f"{tile.cosine:.8f}",
            f"{tile.max_abs_error:.3g}",
            f"{tile.limit_used:.0%}",
            str(tile.max_ulp),
            str(tile.wrong),
        )
        for tile in tiles
    ]


def map_title(drawn: ErrorMap) -> str:
    """What the map shows."""
    scale = f"{drawn.rows_per_line} rows x {drawn.columns_per_char} column" + (
        "s" if drawn.columns_per_char > 1 else ""
    )
    return f"O, batch {drawn.batch}, head {drawn.head}: rows by columns, one character is {scale}"


def map_lines(drawn: ErrorMap) -> list[str]:
    """The map, each line with its first row, and a ruler above."""
    width = len(drawn.lines[0])
    ruler = ""
    for position in range(0, width, 16):
        ruler = ruler.ljust(position) + str(position * drawn.columns_per_char)
    rows = [f"{drawn.first_row + i * drawn.rows_per_line:>8} {line}" for i, line in enumerate(drawn.lines)]
    return [f"{'column':>8} {ruler}", *rows]


def wrong_columns(drawn: ErrorMap) -> str:
    """Columns of the map in which something is wrong, as a set."""
    bad = {i for line in drawn.lines for i, letter in enumerate(line) if letter != "."}
    step = drawn.columns_per_char
    return format_set(column for i in bad for column in range(i * step, (i + 1) * step))
