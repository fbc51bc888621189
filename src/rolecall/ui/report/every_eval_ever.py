"""A run in the Every Eval Ever schema (version 0.3.0): one record of scores and one file of samples for each model.

The files lie where that project's repository keeps them: `data/RUN/DEVELOPER/MODEL/UUID.json` and
`UUID_samples.jsonl`. Their names are made from the run's contents, so exporting again gives the same files.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from rolecall._version import __version__
from rolecall.core.render.spans import Request
from rolecall.runs.atomic import write_atomically
from rolecall.runs.store.results import Result
from rolecall.runs.store.run_reader import RunReader
from rolecall.scoring.scorecard import IntervalBasis, Scorecard

_SCHEMA = '0.3.0'
_LOWER_IS_BETTER = re.compile(r'perplexity|\bppl\b|loss|rmse|\bmae\b|error|\bwer\b|\bcer\b', re.IGNORECASE)
_UNSAFE = re.compile(r'[^\w.-]+')
_SPACE = uuid.UUID('6f0f3a0e-7a53-4c3a-9a44-6d5f6d0a9d11')


def export_every_eval_ever(
    run: str | Path, folder: str | Path, *, prompts: bool = False, on_damage: Callable[[str], None] | None = None
) -> list[Path]:
    """Write a run below a folder; the paths of the records. With `prompts`, samples hold the request that was sent.

    `on_damage` is called once, with a sentence, if rows of the run could not be read.
    """
    paths = []
    with RunReader(run) as reader:
        for model in dict.fromkeys(model for _, model in reader.pairs()):
            record = _Record(reader, model)
            record_file = Path(folder) / f'{record.path}.json'
            samples_file = Path(folder) / f'{record.path}_samples.jsonl'
            record_file.parent.mkdir(parents=True, exist_ok=True)
            count, checksum = _write_samples(samples_file, record.samples(prompts=prompts))
            with write_atomically(record_file) as part:
                part.write_text(_dump(record.summary(count, checksum), indent=2) + '\n', encoding='utf-8')
            paths.append(record_file)
        if reader.damage and on_damage is not None:
            on_damage(str(reader.damage))
    return paths


def _write_samples(file: Path, samples: Iterator[dict[str, Any]]) -> tuple[int, str]:
    digest, count = hashlib.sha256(), 0
    with write_atomically(file) as part, open(part, 'wb') as stream:
        for sample in samples:
            line = f'{_dump(sample)}\n'.encode()
            digest.update(line)
            stream.write(line)
            count += 1
    return count, digest.hexdigest()


@dataclass(frozen=True, slots=True)
class _Record:
    """One model of a run."""

    reader: RunReader
    model: str

    @property
    def entry(self) -> Mapping[str, Any]:
        entries = self.reader.config().get('models') or []
        return next((entry for entry in entries if isinstance(entry, Mapping) and entry.get('abbr') == self.model), {})

    @property
    def model_id(self) -> str:
        named = next((self.entry[key] for key in ('model', 'path') if isinstance(self.entry.get(key), str)), '')
        name = str(named) if named and str(named) != 'none' and not Path(str(named)).is_absolute() else self.model
        return name if '/' in name else f'unknown/{name}'

    @property
    def evaluation_id(self) -> str:
        return f'{self.reader.title}/{self.model_id}/{self._timestamp()}'

    @property
    def path(self) -> str:
        """The path of the record, without its suffix. The schema requires a UUID of version 4."""
        digest = bytearray(uuid.uuid5(_SPACE, self.evaluation_id).bytes)
        digest[6] = digest[6] & 0x0F | 0x40
        folders = '/'.join(map(_name_folder, (self.reader.title, *self.model_id.split('/', 1))))
        return f'data/{folders}/{uuid.UUID(bytes=bytes(digest))}'

    def _timestamp(self) -> str:
        try:
            return str(datetime.fromisoformat(self.reader.created).timestamp())
        except ValueError:
            return '0.0'

    def summary(self, samples: int, checksum: str) -> dict[str, Any]:
        """The scores, and where their samples are."""
        cards = [card for card in self.reader.scorecards() if card.model == self.model and card.value is not None]
        return {
            'schema_version': _SCHEMA,
            'evaluation_id': self.evaluation_id,
            'evaluation_timestamp': self._timestamp(),
            'retrieved_timestamp': self._timestamp(),
            'source_metadata': {
                'source_name': self.reader.title,
                'source_type': 'evaluation_run',
                'source_organization_name': 'unknown',
                'evaluator_relationship': 'other',
            },
            'eval_library': {'name': 'rolecall', 'version': __version__},
            'model_info': {
                'name': self.model,
                'id': self.model_id,
                'additional_details': {
                    'deployment_type': 'unknown',
                    'model_availability': 'unknown',
                    'type': str(self.entry.get('type', 'unknown')),
                },
            },
            'evaluation_results': [_describe_score(column) for card in cards for column in card.columns],
            'detailed_evaluation_results': {
                'format': 'jsonl',
                'file_path': f'{self.path}_samples.jsonl',
                'hash_algorithm': 'sha256',
                'checksum': checksum,
                'total_rows': samples,
            },
        }

    def samples(self, *, prompts: bool) -> Iterator[dict[str, Any]]:
        """Every row of the model."""
        for result in self.reader.results(model=self.model):
            request = self.reader.request(result.fingerprint) if result.fingerprint else None
            yield self._sample(result, request, prompts=prompts)

    def _sample(self, result: Result, request: Request | None, *, prompts: bool) -> dict[str, Any]:
        sent = '' if request is None else request if isinstance(request, str) else _dump(request)
        reference = _as_list(result.gold)
        hashed = hashlib.sha256((sent + ''.join(reference)).encode('utf-8', 'surrogatepass')).hexdigest()
        several = len(result.fingerprints) > 1 and len(result.replies) > 1
        sample: dict[str, Any] = {
            'schema_version': _SCHEMA,
            'evaluation_id': self.evaluation_id,
            'model_id': self.model_id,
            'evaluation_name': result.dataset,
            'sample_id': f'{result.dataset}/{result.row}',
            'sample_hash': hashed,
            'interaction_type': 'multi_turn' if several else 'single_turn',
            'input': {'raw': sent if prompts else '', 'formatted': sent if prompts else None, 'reference': reference},
            'output': None,
            'messages': None,
            'answer_attribution': [
                {
                    'turn_idx': max(0, len(result.replies) - 1) if several else 0,
                    'source': 'messages[turn_idx].content' if several else 'output.raw',
                    'extracted_value': _as_text(result.extracted),
                    'extraction_method': 'custom',
                    'is_terminal': True,
                }
            ],
            'evaluation': {
                'score': result.score if result.score is not None else float(bool(result.correct)),
                'is_correct': bool(result.correct),
                **({'num_turns': len(result.replies)} if several else {}),
            },
            'error': None if result.outcome == 'ok' else f'{result.outcome}: {result.reason}'.rstrip(': '),
            'metadata': {'scored': str(result.score is not None or result.correct is not None).lower()},
        }
        if several:
            sample['messages'] = [
                {'turn_idx': turn, 'role': 'assistant', 'content': reply} for turn, reply in enumerate(result.replies)
            ]
        else:
            sample['output'] = {
                'raw': list(result.replies),
                'reasoning_trace': [thought for thought in result.reasoning if thought],
            }
        if result.input_tokens is not None and result.output_tokens is not None:
            used = {'input_tokens': result.input_tokens, 'output_tokens': result.output_tokens}
            sample['token_usage'] = {
                **used,
                'total_tokens': sum(used.values()),
                'input_tokens_cache_read': result.cached_tokens,
                'input_tokens_cache_write': result.cache_written_tokens,
                'reasoning_tokens': result.reasoning_tokens,
            }
        if result.seconds is not None:
            sample['performance'] = {'latency_ms': 1000 * result.seconds}
        return sample


def _name_folder(name: str) -> str:
    """A name as one folder, never the one above (`../weights/small.gguf` is a model's path).

    >>> [_name_folder(name) for name in ('..', 'weights/small.gguf')]
    ['unknown', 'weights_small.gguf']
    """
    return _UNSAFE.sub('_', name).strip('.') or 'unknown'


def _describe_score(card: Scorecard) -> dict[str, Any]:
    percent, basis = card.is_percent, card.interval or IntervalBasis()
    score: dict[str, Any] = {'score': card.value, 'details': {'total_rows': str(card.total)}}
    if card.low is not None and card.high is not None:
        score['uncertainty'] = {
            'confidence_interval': {
                'lower': card.low,
                'upper': card.high,
                'confidence_level': 0.95 if basis.confidence is None else basis.confidence,
                'method': 'unknown' if basis.method is None else basis.method,
            },
            'num_samples': card.scored,
        }
    lower = bool(card.lower_is_better or _LOWER_IS_BETTER.search(card.metric))
    return {
        'evaluation_name': card.dataset,
        'evaluation_result_id': f'{card.dataset}/{card.metric}',
        'source_data': {'dataset_name': card.dataset, 'source_type': 'other'},
        'metric_config': {
            'metric_name': card.metric,
            'metric_unit': 'percent' if percent else 'unknown',
            'lower_is_better': lower,
            'score_type': 'continuous',
            'min_score': 0 if percent else None,
            'max_score': 100 if percent else None,
        },
        'score_details': score,
    }


def _as_list(gold: Any) -> list[str]:
    if gold is None:
        return []
    return [_as_text(answer) for answer in gold] if isinstance(gold, list | tuple) else [_as_text(gold)]


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else '' if value is None else _dump(value)


def _dump(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, indent=indent, default=str)
