"""The results of a run as JSON lines, CSV or Parquet."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal

from rolecall.errors import ConfigError, Problem, RunError, did_you_mean, import_extra
from rolecall.runs.atomic import write_atomically
from rolecall.runs.store.codec import UNREADABLE, as_plain, dumps
from rolecall.runs.store.labels import KINDS, Labels
from rolecall.runs.store.results import Result
from rolecall.runs.store.row_codec import result_as_dict
from rolecall.runs.store.run_reader import RunReader

Format = Literal['jsonl', 'csv', 'parquet']
_FIRST = ('dataset', 'model', 'row', 'outcome', 'prediction', 'gold', 'score', 'fingerprint')
_LARGEST = 2**63
_TOKENS = (
    'input_tokens',
    'expected_tokens',
    'output_tokens',
    'cached_tokens',
    'cache_written_tokens',
    'reasoning_tokens',
)
_PART = 1000
_FORMULA = ('=', '+', '-', '@', '\t', '\r')
_NUMBER = re.compile(r'[+-]?\d+(?:[.,]\d+)*%?')


def export_results(
    run: str | Path,
    to: IO[str] | str | Path,
    *,
    format: Format = 'jsonl',  # noqa: A002  # the word for it
    dataset: str | None = None,
    model: str | None = None,
    prompts: bool = False,
    formulas: bool = False,
    labels: bool = False,
    on_damage: Callable[[str], None] | None = None,
) -> int:
    """Write the rows of a run one at a time, and return how many there were; with `labels`, people's decisions instead.

    Each row has the dataset's columns as `fields`; with `prompts`, also the `requests` that were sent. `dataset` and
    `model` select by abbr; patterns work. In CSV, text that a spreadsheet would run as a formula gets an apostrophe in
    front; `formulas=True` writes it as it is.
    `on_damage` is called once, with a sentence, if rows of the run could not be read.
    """
    if format == 'parquet':
        if labels:
            raise RunError('labels are written as JSON lines or CSV: name a .jsonl or .csv file.')
        if not isinstance(to, (str, Path)):
            raise RunError('Parquet cannot be written to a stream: name a file.')
        with write_atomically(to) as part:
            objects = result_objects(run, dataset=dataset, model=model, prompts=prompts, on_damage=on_damage)
            return _write_parquet(objects, part, prompts)
    lines = result_lines(
        run, format=format, dataset=dataset, model=model, prompts=prompts, formulas=formulas, on_damage=on_damage
    )
    if labels:
        decisions = label_objects(run, dataset=dataset, model=model)
        lines = csv_lines(decisions) if format == 'csv' else map(_json_line, decisions)
    if isinstance(to, (str, Path)):
        with write_atomically(to) as part, open(part, 'w', encoding='utf-8', newline='\n') as stream:
            count = _write(lines, stream)
    else:
        count = _write(lines, to)
    return max(0, count - 1) if format == 'csv' else count


def result_lines(
    run: str | Path,
    *,
    format: Literal['jsonl', 'csv'] = 'jsonl',  # noqa: A002  # the word for it
    dataset: str | None = None,
    model: str | None = None,
    prompts: bool = False,
    formulas: bool = False,
    on_damage: Callable[[str], None] | None = None,
) -> Iterator[str]:
    """The rows of a run as lines: one JSON object each, or CSV with a header."""
    objects = result_objects(run, dataset=dataset, model=model, prompts=prompts, on_damage=on_damage)
    return csv_lines(objects, formulas=formulas) if format == 'csv' else map(_json_line, objects)


def result_objects(
    run: str | Path,
    *,
    dataset: str | None = None,
    model: str | None = None,
    prompts: bool = False,
    on_damage: Callable[[str], None] | None = None,
) -> Iterator[dict[str, Any]]:
    """The rows of a run as plain objects, the most used keys first; `label` is what a person said about the row."""
    with RunReader(run) as archive:
        archive.refuse_if_nothing_is_whole()
        pairs, labels = archive.pairs(), dict(Labels(archive.directory).items())
        for name, pattern, of in (('dataset', dataset, 0), ('model', model, 1)):
            _refuse_unknown(name, pattern, dict.fromkeys(pair[of] for pair in pairs))
        for pair in pairs:
            if all(
                pattern is None or fnmatchcase(abbr, pattern)
                for abbr, pattern in zip(pair, (dataset, model), strict=True)
            ):
                for result in archive.results(*pair):
                    label = labels.get((result.dataset, result.model, result.row))
                    values = _order_keys(result, archive) | {
                        'label': label,
                        'fields': archive.fields(pair[0], result.row),
                    }
                    sent = {'requests': [archive.request(mark) for mark in result.fingerprints]} if prompts else {}
                    yield values | sent
        if archive.damage and on_damage is not None:
            on_damage(str(archive.damage))


def label_objects(run: str | Path, *, dataset: str | None, model: str | None) -> Iterator[dict[str, Any]]:
    """What people decided about the rows of a run, a record for each person and row."""
    with RunReader(run) as archive:
        for kind in KINDS:
            for key, decisions in Labels(archive.directory, kind).by_row().items():
                if not (fnmatchcase(key[0], dataset or '*') and fnmatchcase(key[1], model or '*')):
                    continue
                result = archive.result(*key) or Result(*key, 'failed')
                for by, decision in decisions.items():
                    place = dict(zip(('dataset', 'model', 'row'), key, strict=True))
                    decided = {'by': by, 'label': None, 'answer': None} | {
                        kind: 'NONE' if decision.value is None else decision.value
                    }
                    texts = {'reply': '\n'.join(result.replies), 'gold': result.gold, 'read': result.extracted}
                    yield place | decided | texts | {'score': result.score, 'current': decision.is_about(result)}


def _refuse_unknown(what: str, pattern: str | None, known: Iterable[str]) -> None:
    names = list(known)
    if pattern is not None and not any(fnmatchcase(name, pattern) for name in names):
        raise ConfigError(Problem(f'{what}s', f'no {what} of this run fits {pattern!r}.', did_you_mean(pattern, names)))


def _order_keys(result: Result, archive: RunReader | None = None) -> dict[str, Any]:
    """A result as a plain object; a judge's replies come with the requests they answer."""
    values = result_as_dict(result)
    if archive is not None and result.judged:
        values['judged'] = [
            None if reply is None else {'request': archive.request(reply['fingerprint']), **reply}
            for reply in result.judged
        ]
    values['served'] = {name: text for name, text in result.served._asdict().items() if text}
    values['read_from'] = [place and describe_place(place) for place in result.read_from]
    values['beside'] = dict(zip(_BESIDE, result.beside, strict=False)) or None
    return {key: values.pop(key) for key in _FIRST} | values


_BESIDE = ('read_as', 'extracted', 'score', 'correct')
"""What is exported of the other reading's verdict."""


def describe_place(place: Sequence[Any]) -> dict[str, Any]:
    """Where an answer was read, by names.

    >>> describe_place([14, 15, 'statement', 'stated'])
    {'start': 14, 'end': 15, 'rule': 'statement', 'certainty': 'stated', 'rivals': []}
    """
    start, end, rule, certainty, *rivals = place
    return {'start': start, 'end': end, 'rule': rule, 'certainty': certainty, 'rivals': rivals[0] if rivals else []}


def _json_line(values: Any) -> str:
    return _encodable(_write_json(values))


def _write_json(values: Any) -> str:
    """JSON in full Unicode, with null for numbers that JSON does not have."""
    try:
        return _FINITE.encode(values)
    except UNREADABLE:  # not a number among them, or a key that is no text
        return json.dumps(_finite(json.loads(dumps(values))), ensure_ascii=False)


_FINITE = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=as_plain)


def _encodable(text: str) -> str:
    """The text with a question mark for each half of a character."""
    return text if text.isascii() else text.encode('utf-8', 'replace').decode()


def _finite(value: Any) -> Any:
    """The value with null for numbers that JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    return [_finite(inner) for inner in value] if isinstance(value, list) else value


def _write(lines: Iterator[str], stream: IO[str]) -> int:
    count = 0
    for line in lines:
        stream.write(line + '\n')
        count += 1
    return count


class _Line:
    """Takes what a CSV writer writes."""

    text = ''

    def write(self, text: str) -> int:
        self.text = text
        return len(text)


def csv_lines(objects: Iterable[Mapping[str, Any]], *, formulas: bool = False) -> Iterator[str]:
    """Records as lines of CSV, with a header."""
    line = _Line()
    writer = csv.writer(
        line, lineterminator='\r\n'
    )  # it quotes cells that hold a character of this, and no other break
    for number, values in enumerate(objects):
        if number == 0:
            writer.writerow(values)
            yield line.text.removesuffix('\r\n')
        writer.writerow([_flatten_cell(value, formulas=formulas) for value in values.values()])
        yield _encodable(line.text.removesuffix('\r\n'))


def _flatten_cell(value: Any, *, formulas: bool) -> Any:
    """Lists and mappings as JSON; text that a spreadsheet would take for a formula behind an apostrophe."""
    if isinstance(value, (list, tuple, dict)):
        return _write_json(value) if value else ''
    return quote_formula(value) if isinstance(value, str) and not formulas else value


def quote_formula(text: str) -> str:
    """The text, behind an apostrophe if a spreadsheet would take it for a formula."""
    return f"'{text}" if text.lstrip(' \n').startswith(_FORMULA) and not _NUMBER.fullmatch(text) else text


def _write_parquet(objects: Iterator[dict[str, Any]], path: Path, prompts: bool) -> int:
    pyarrow = import_extra('pyarrow', purpose='to write Parquet files', extra='data')
    parquet = import_extra('pyarrow.parquet', purpose='to write Parquet files', extra='data')
    numbers = {'row': pyarrow.int64(), 'score': pyarrow.float64(), 'correct': pyarrow.bool_()}
    numbers |= dict.fromkeys(('shots_dropped', *_TOKENS), pyarrow.int64())
    numbers |= dict.fromkeys(('seconds', 'first_token_seconds'), pyarrow.float64())
    keys = [*_order_keys(Result('', '', 0, 'ok')), 'label', 'fields', *(['requests'] if prompts else [])]
    schema = pyarrow.schema([(key, numbers.get(key, pyarrow.string())) for key in keys])
    count = 0
    with parquet.ParquetWriter(path, schema) as writer:
        while part := list(islice(objects, _PART)):
            texts = [
                {key: _number(value) if key in numbers else _text(value) for key, value in values.items()}
                for values in part
            ]
            writer.write_table(pyarrow.Table.from_pylist(texts, schema=schema))
            count += len(part)
    return count


def _number(value: Any) -> Any:
    """A number that a column can hold; a count beyond 64 bits, which only a broken server reports, is left out."""
    fits = isinstance(value, float) or (isinstance(value, int) and -_LARGEST <= value < _LARGEST)
    return value if fits else None


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value if value is None else _encodable(value)
    return _json_line(value)
