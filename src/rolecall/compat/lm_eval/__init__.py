"""lm-evaluation-harness task files, read as they are: YAML, Jinja and the functions beside them become a config."""

from __future__ import annotations

from pathlib import Path

__all__ = ['CATALOGUE', 'SUFFIXES', 'is_task_source']

CATALOGUE = 'lm_eval:'
"""The prefix for tasks of the installed package: `lm_eval:arc_easy`, `lm_eval:mmlu_*`."""
SUFFIXES = ('.yaml', '.yml')


def is_task_source(source: str | Path) -> bool:
    """Whether this names task files: a YAML file that is not a config, a folder with some, a name in the catalogue.

    >>> is_task_source('tasks/arc_easy.yaml'), is_task_source('lm_eval:mmlu'), is_task_source('config.py')
    (True, True, False)
    """
    text = str(source)
    if text.startswith(CATALOGUE):
        return True
    if text.endswith(SUFFIXES):
        from rolecall.sources.config.plain_configs import is_plain_config

        return not is_plain_config(text)
    folder = Path(text)
    return folder.is_dir() and any(path.suffix in SUFFIXES for path in folder.iterdir())
