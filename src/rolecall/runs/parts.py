"""The parts of a dataset × model, each with a digest: two numbers compare where the digests of their parts agree.

Every key of a dataset's and a model's entry belongs to one cause (`system text`, `length`, …), every cause to one part.

What the stored rows depend on has two further digests, of asking and of scoring. While that of asking is the one in the
store, finished rows need not be worded again to see that they are finished. They exist only where everything is data:
with a function of the user's own, nobody can know.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from rolecall._version import __version__
from rolecall.config_keys import keys_of
from rolecall.core.program import fingerprint
from rolecall.core.render.chat_renderer import ChatRenderer
from rolecall.core.render.meta import find_meta_template
from rolecall.errors import RolecallError
from rolecall.experiment.inferencers.inferencer import Inferencer
from rolecall.experiment.opening.model_entries import ModelEntry
from rolecall.experiment.opening.sampling import sampling_of
from rolecall.experiment.opening.tasks import TaskEntry
from rolecall.experiment.pairs.pair import Pair
from rolecall.models.function import FunctionModel
from rolecall.models.protocol import Model
from rolecall.plain_files import read_table
from rolecall.redaction import mask_config
from rolecall.sources.config.reference import Reference, dotted_name
from rolecall.sources.datasets.digest import checksum_rows, digest_rows
from rolecall.sources.datasets.rows import Rows

COMPARED = ('wording', 'examples', 'rows', 'reader', 'metric')
"""Parts that are the dataset's: models are ranked only where these agree."""
CAUSES = {
    'system text': 'wording',
    'wording': 'wording',
    'examples': 'examples',
    'BOS': 'format',
    'format': 'format',
    'tokenizer': 'tokenizer',
    'length': 'sampling',
    'stops': 'sampling',
    'sampling': 'sampling',
    'asking': 'sampling',
    'engine': 'engine',
    'the model': 'engine',
    'rows': 'rows',
    'reader': 'reader',
    'metric': 'metric',
    'aggregation': 'metric',
    'denominator': 'metric',
}
"""Each cause of a difference, with its part."""


def _read_causes() -> dict[str, dict[str, str]]:
    """The cause that a key belongs to, by where it stands; none for what changes no number. `*`: keys that are not
    listed, `@sampling`: all keys of that place."""
    causes: dict[str, dict[str, str]] = {}
    for place, cause, keys in read_table(__file__, 'causes.tsv'):
        for key in keys.split():
            names = keys_of(key[1:]) if key.startswith('@') else (key,)
            causes.setdefault(place, {}).update(dict.fromkeys(names, cause))
    return causes


_CAUSES_OF = _read_causes()
_NESTED = {('dataset', name): name for name in ('reader_cfg', 'infer_cfg', 'eval_cfg')} | {
    ('infer_cfg', 'inferencer'): 'inferencer'
}
_LAST_FIELD = re.compile(r'(?<!\s)\s+(\{\w+\})\s*$')
_NOT_ENGINE = frozenset((*keys_of('sampling'), 'generation', 'stops', 'max_seq_len', 'tokenizer'))
_PROBE = 'Hello, world!  Zwölf 12345.67 naïve 你好\n<s></s><|im_end|>'
Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PartDigests:
    """The digest of each part of a dataset × model; None where it is not known.

    >>> PartDigests(wording='a', rows='c').find_differing(PartDigests(wording='b', rows='c', metric='d'))
    ['wording']
    """

    wording: str | None = None
    examples: str | None = None
    format: str | None = None
    tokenizer: str | None = None
    rows: str | None = None
    reader: str | None = None
    metric: str | None = None
    sampling: str | None = None
    engine: str | None = None
    template: str | None = None
    """The wording with its roles and all its spaces, which decide what one model is sent."""

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> PartDigests:
        """The digests that a manifest has stored."""
        return cls(**{name: record[name] for name in _DIGESTS if isinstance(record.get(name), str)})

    def as_dict(self) -> dict[str, str]:
        """The digests that are known."""
        return {name: digest for name in _DIGESTS if (digest := getattr(self, name)) is not None}

    def find_differing(self, other: PartDigests, among: Sequence[str] = ()) -> list[str]:
        """The parts that are known on both sides and differ."""
        ours, theirs = self.as_dict(), other.as_dict()
        return [name for name in among or PART_NAMES if name in ours and ours[name] != theirs.get(name, ours[name])]

    def list_differing(self, other: PartDigests) -> list[str]:
        """The parts that differ, or the template where nothing else does."""
        return self.find_differing(other) or self.find_differing(other, ('template',))


_DIGESTS = tuple(field.name for field in fields(PartDigests))
PART_NAMES = _DIGESTS[:-1]


def split_causes(dataset: Mapping[str, Any], model: Mapping[str, Any]) -> dict[str, dict[Path, Any]]:
    """The settings of a dataset × model by the cause that they belong to, each under its path.

    >>> dataset = {'infer_cfg': {'prompt_template': {'template': 'Q: {q}'}, 'inferencer': {'max_out_len': 8}}}
    >>> split_causes(dataset, {'abbr': 'm', 'type': 'OpenAI'})['length']
    {('dataset', 'infer_cfg', 'inferencer', 'max_out_len'): 8}
    """
    causes: dict[str, dict[Path, Any]] = {}
    for side, entry in (('dataset', dataset), ('model', model)):
        for path, place, value in _walk(entry, (side,), side):
            if cause := _CAUSES_OF[place].get(path[-1], _CAUSES_OF[place]['*']):
                causes.setdefault(cause, {})[path] = value
    return causes


def _walk(entry: Mapping[str, Any], path: Path, place: str) -> Iterator[tuple[Path, str, Any]]:
    """Every setting with its path and the kind of section it stands in."""
    for key, value in entry.items():
        section = _NESTED.get((place, key))
        if section is not None and isinstance(value, Mapping):
            yield from _walk(value, (*path, key), section)
        else:
            yield (*path, key), place, value


def digest_entries(dataset: Mapping[str, Any], model: Mapping[str, Any]) -> PartDigests:
    """The parts that the entries alone decide: wording, reader, metric, sampling."""
    causes = split_causes(dataset, model)
    infer = dataset.get('infer_cfg')
    infer = infer if isinstance(infer, Mapping) else {}
    options = infer.get('inferencer')
    options = options if isinstance(options, Mapping) else {'type': options}
    own = {**causes.get('sampling', {}), **causes.get('asking', {})}
    settings = {path[-1]: value for path, value in own.items() if path[0] == 'dataset'}
    drawn = [sampling_of(options, model).as_dict(), settings]
    metric = [causes.get(cause) for cause in CAUSES if CAUSES[cause] == 'metric']
    template = infer.get('prompt_template')
    template = template if isinstance(template, Mapping) else {'template': template}
    return PartDigests(
        wording=_digest(_words_of(infer.get('prompt_template') or infer.get('ice_template'))),
        reader=_digest(causes.get('reader')),
        metric=_digest(metric),
        sampling=_digest(drawn),
        template=_digest({key: value for key, value in template.items() if key != 'type'}),
    )


def digest_pair(pair: Pair, model: Model | None, rows_digests: dict[int, str | None]) -> PartDigests:
    """Every part of a dataset × model; without the model, tokenizer and engine are not known.

    `rows_digests` keeps the digests of rows, which several models share.
    """
    model_entry = pair.model_entry
    if model_entry is None:
        return digest_entries(pair.task.entry, {})
    causes = split_causes(pair.task.entry, model_entry.entry)
    template = model_entry.renderer.template if isinstance(model_entry.renderer, ChatRenderer) else None
    chat = template and [template.source, template.bos_token, template.eos_token, template.tool_source]
    settings = {
        path: find_meta_template(value) if path[-1] == 'meta_template' else value
        for path, value in causes.get('format', {}).items()
    }
    style = [settings, causes.get('BOS'), model_entry.kind, chat]
    shows = pair.task.retriever.ice_num or getattr(pair.task.retriever, 'fix_id_list', None)
    examples = [causes.get('examples'), _digest_rows(pair.data.train, rows_digests)] if shows else None
    digests: dict[str, str | None] = {
        **digest_entries(pair.task.entry, model_entry.entry).as_dict(),
        'examples': _digest(examples),
        'format': _digest(style),
        'rows': _digest_rows(pair.data.test, rows_digests),
    }
    if model is not None:
        identity = {key: value for key, value in model.identity.items() if key not in _NOT_ENGINE}
        digests |= {'tokenizer': _digest_tokenizer(model), 'engine': _digest(identity)}
    return PartDigests.from_record(digests)


def _digest_rows(rows: Rows, digests: dict[int, str | None]) -> str | None:
    if id(rows) not in digests:
        digests[id(rows)] = checksum_rows(rows)
    return digests[id(rows)]


def _digest_tokenizer(model: Model) -> str | None:
    """A digest of how a tokenizer splits a text that tells most of them apart; None without a tokenizer."""
    try:
        tokenizer = getattr(model, 'tokenizer', None)
        return None if tokenizer is None else _digest([tokenizer.encode(_PROBE), tokenizer.bos_id, tokenizer.adds_bos])
    except (RolecallError, OSError, ValueError):
        return None


def _words_of(template: Any) -> str:
    """What a template says, whether as a string or as a dialogue.

    Left out: the space before a field at the end, which the model's side decides, and the mark of the examples' place.

    >>> dialogue = {'round': [{'role': 'HUMAN', 'prompt': 'Add {q}'}, {'role': 'BOT', 'prompt': '{a}'}]}
    >>> _words_of(dialogue) == _words_of('Add {q}\\n{a}') != _words_of('Add  {q}\\n{a}')
    True
    """
    token = template.get('ice_token') if isinstance(template, Mapping) else None
    texts = (text.replace(token, '') if isinstance(token, str) else text for text in _texts_in(template))
    words = _LAST_FIELD.sub(r'\1', '\n'.join(filter(None, texts)))
    return words or json.dumps(as_data(template), sort_keys=True)


def _texts_in(value: Any) -> Iterator[str]:
    """The words of a template, without its roles and types."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if key not in ('role', 'fallback_role', 'type'):
                yield from _texts_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts_in(inner)


def _digest(value: Any) -> str:
    return fingerprint(json.dumps(as_data(mask_config(value)), sort_keys=True))[:16]


def as_data(value: Any) -> Any:
    """A setting as plain data; of a function, its name and a digest of its source."""
    if isinstance(value, Mapping):
        return {'.'.join(key) if isinstance(key, tuple) else str(key): as_data(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [as_data(inner) for inner in value]
    if value is None or isinstance(value, str | int | float):
        return value
    if (name := dotted_name(value)) is not None:
        return [name, FunctionModel.source_digest(value) if callable(value) else None]
    if callable(describe := getattr(type(value), 'describe_part', None)):
        return as_data(describe(value))
    return repr(value) if ' at 0x' not in repr(value) else dotted_name(type(value))  # many reprs hold an address


_KNOWN_PACKAGES = ('rolecall', 'opencompass', 'ais_bench', 'mmengine')
_NAMES_CODE = ('type', 'evaluator', 'pred_postprocessor', 'dataset_postprocessor', 'model_postprocessor', 'function')
_IN_IDENTITY = ('type', 'function', 'score')
"""Options of a model entry that may be code: the model's identity covers them."""


def digest_asking(pair: Pair, model: Model, inferencer: Inferencer, cache: dict[int, str | None]) -> str | None:
    """A digest of everything that decides what is sent for each row; None where that cannot be told.

    `cache` keeps the digests of rows, which several models share.
    """
    task, model_options = pair.task, pair.model_entry.entry if pair.model_entry is not None else {}
    if not task.retriever.fixed or task.inferencer.own is not None:
        return None
    identity = json.dumps(dict(model.identity), sort_keys=True, default=str)
    dataset = {key: value for key, value in task.entry.items() if key not in ('eval_cfg', 'lint', 'train', 'test')}
    entry = {key: value for key, value in model_options.items() if key not in _IN_IDENTITY}
    for rows in (pair.data.test, pair.data.train):
        if id(rows) not in cache:
            cache[id(rows)] = digest_rows(rows)
    digests = [cache[id(rows)] for rows in (pair.data.test, pair.data.train)]
    if None in digests:
        return None
    sampling = getattr(inferencer, 'sampling', None)
    return _digest_known([dataset, entry, identity, sampling and sampling.as_dict(), digests])


def digest_scoring(task: TaskEntry, model_entry: ModelEntry) -> str | None:
    """A digest of everything that decides how rows are scored; None where that cannot be told."""
    entry = model_entry.entry
    parts = [entry.get('pred_postprocessor'), entry.get('meta_template')]
    infer = task.entry.get('infer_cfg') or {}
    columns = [task.wording.output_column, task.reader.input_columns]
    return _digest_known([task.entry.get('eval_cfg'), infer.get('inferencer'), columns, parts])


def is_data(value: Any) -> bool:
    """Whether a part of a config names no code of the user's own."""
    return _digest_known(value) is not None


def _digest_known(value: Any) -> str | None:
    try:
        text = json.dumps([__version__, _as_known_data(value, '')], sort_keys=True)
    except (_NotDataError, ValueError, RecursionError):
        return None
    return hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:32]


class _NotDataError(Exception):
    """Something in a config whose behaviour its name does not tell."""


def _as_known_data(value: Any, name: str) -> Any:
    if isinstance(value, str):
        if name in _NAMES_CODE and {'.', ':'} & {*value} and not _is_known(value):
            raise _NotDataError
        return value
    if value is None or isinstance(value, (int, float)):
        return value
    if isinstance(value, Mapping):
        return {str(key): _as_known_data(inner, str(key)) for key, inner in value.items()}
    if isinstance(value, Sequence):
        return [_as_known_data(inner, name) for inner in value]
    dotted = value.dotted if isinstance(value, Reference) else f'{getattr(value, "__module__", "")}.'
    if not _is_known(dotted) or not (isinstance(value, Reference) or hasattr(value, '__qualname__')):
        raise _NotDataError
    return dotted if isinstance(value, Reference) else f'{dotted}{value.__qualname__}'


def _is_known(dotted: str) -> bool:
    return dotted.split('.')[0] in _KNOWN_PACKAGES
