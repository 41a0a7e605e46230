"""``python -m umma_probe``."""

from umma_probe.cli.main import run

run()
