"""`reader_cfg`: the input and output columns of a dataset, its splits and ranges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from rolecall.errors import ConfigError, DataError, Problem, did_you_mean
from rolecall.sources.datasets.ranges import Range, check_range


@dataclass(frozen=True, slots=True)
class Reader:
    """Columns, splits and ranges of a dataset.

    >>> Reader.from_config({'input_columns': 'question choices', 'output_column': 'answer'}).input_columns
    ('question', 'choices')
    """

    input_columns: tuple[str, ...] = ()
    output_column: str | None = None
    train_split: str = 'train'
    test_split: str = 'test'
    train_range: Range = None
    test_range: Range = None
    input_template: Any = None
    output_template: Any = None

    @classmethod
    def from_config(cls, cfg: Mapping[str, Any]) -> Reader:
        """A reader from a config's `reader_cfg`; all its problems are reported at once.

        >>> Reader.from_config({'input_colums': ['question'], 'test_range': '[0:5'})
        Traceback (most recent call last):
        rolecall.errors.ConfigError: input_colums
          unknown key.
          Did you mean 'input_columns'?
        test_range
          '[0:5' is not a range: write slices such as '[0:10]', '[::2]' or '[:100][3:5]'.
        """
        if not isinstance(cfg, Mapping):
            raise ConfigError(Problem('', f'reader_cfg must be a mapping, got {type(cfg).__name__}.'))
        allowed = [field.name for field in fields(cls)]
        problems = [Problem(str(key), 'unknown key.', did_you_mean(key, allowed)) for key in cfg if key not in allowed]
        values = {key: value for key, value in cfg.items() if key in allowed}
        for key, value in values.items():
            if wrong := _describe_problem(key, value):
                problems.append(Problem(key, wrong))
        if problems:
            raise ConfigError(problems)
        columns = values.get('input_columns') or ()
        values['input_columns'] = tuple(columns.split() if isinstance(columns, str) else columns)
        values['output_column'] = values.get('output_column') or None
        return cls(**values)


def _describe_problem(key: str, value: Any) -> str:
    match key:
        case 'input_columns' if not (value is None or isinstance(value, str | list | tuple)):
            return f'must be a list of column names or one string, got {type(value).__name__}.'
        case 'input_columns' if not all(isinstance(name, str) for name in value or ()):
            return f'column names must be strings, got {value!r}.'
        case 'output_column' if not (value is None or isinstance(value, str)):
            return f'must be a column name or None, got {value!r}.'
        case 'train_split' | 'test_split' if not isinstance(value, str):
            return f'must be the name of a split, got {value!r}.'
        case 'train_range' | 'test_range':
            try:
                check_range(value)
            except DataError as error:
                return str(error)
    return ''
