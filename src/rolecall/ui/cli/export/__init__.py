"""`rolecall export`: requests, results or training data, written to a file."""

from __future__ import annotations

from typing import Any

from rolecall.ui.cli.export.mlflow import add_mlflow
from rolecall.ui.cli.export.requests import add_requests
from rolecall.ui.cli.export.results import add_results
from rolecall.ui.cli.export.sft import add_sft
from rolecall.ui.cli.options import declare_group

__all__ = ['add_export']


def add_export(commands: Any) -> None:
    """Declare `rolecall export` and what it exports."""
    exports = declare_group(commands, 'export', 'write requests, results or training data to a file')
    add_requests(exports)
    add_results(exports)
    add_sft(exports)
    add_mlflow(exports)
