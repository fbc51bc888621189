"""`rolecall config schema`: a JSON schema of YAML and JSON configs, for editors."""

from __future__ import annotations

import argparse
from typing import Any

from rolecall.ui.cli.options import declare_command


def add_schema(commands: Any) -> None:
    """Declare `rolecall config schema`."""
    declare_command(
        commands,
        'schema',
        _print_schema,
        'print a JSON schema of configs, for editors',
        'Print a JSON schema of YAML and JSON configs. Editors use it to complete and check keys and names.',
        '  rolecall config schema > rolecall.schema.json\n'
        '  # then, as the first line of a config:\n'
        '  # yaml-language-server: $schema=rolecall.schema.json',
    )


def _print_schema(arguments: argparse.Namespace) -> int:
    import json

    from rolecall.experiment.opening.config_schema import config_schema

    print(json.dumps(config_schema(), indent=2, ensure_ascii=False))
    return 0
