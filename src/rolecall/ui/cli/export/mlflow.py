"""Log a run to MLflow.

Log a run to MLflow: for each model a run with scores, parameters, rows as a table, and the report.

  rolecall export mlflow runs/first
  rolecall export mlflow runs/first --tracking-uri http://localhost:5000 --experiment nightly
"""

from __future__ import annotations

import argparse

from rolecall.ui.cli.output import print_note


def execute(arguments: argparse.Namespace) -> int:
    from rolecall.ui.report.mlflow_export import export_mlflow

    ids = export_mlflow(
        arguments.directory,
        tracking_uri=arguments.tracking_uri,
        experiment=arguments.experiment,
        on_damage=print_note,
    )
    print('\n'.join(ids))
    return 0
