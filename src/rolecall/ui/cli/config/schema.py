"""Print a JSON schema of configs, for editors.

Print a JSON schema of YAML and JSON configs. Editors use it to complete and check keys and names.

  rolecall config schema > rolecall.schema.json
  # then, as the first line of a config:
  # yaml-language-server: $schema=rolecall.schema.json
"""

from __future__ import annotations

import argparse


def declare(parser: argparse.ArgumentParser) -> None:
    """It takes no arguments."""


def execute(arguments: argparse.Namespace) -> int:
    import json

    from rolecall.experiment.opening.config_schema import config_schema

    print(json.dumps(config_schema(), indent=2, ensure_ascii=False))
    return 0
