"""Benchmarks of long texts: LongBench, its second version, and InfiniteBench's plain files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rolecall.sources.datasets.layouts import Entry, Loader, SplitFile, layout
from rolecall.sources.datasets.rows import Row, Splits

_QUESTIONS = (
    '2wikimqa', 'dureader', 'hotpotqa', 'multifieldqa_en', 'multifieldqa_zh', 'musique', 'narrativeqa', 'passage_count',
    'passage_retrieval_en', 'passage_retrieval_zh', 'qasper', 'qmsum', 'repobench', 'samsum', 'triviaqa',
)  # fmt: skip
_TEXTS = ('gov_report', 'lcc', 'multi_news', 'vcsum')
_CLASSES = ('lsht', 'trec')
_V2 = (
    'question', 'context', 'answer', 'choice_A', 'choice_B', 'choice_C', 'choice_D', 'difficulty', 'length',
)  # fmt: skip


def question(row: Row) -> Row:
    return {name: row[name] for name in ('input', 'context', 'answers')}


def text(row: Row) -> Row:
    return {name: row[name] for name in ('context', 'answers')}


def classes(row: Row) -> Row:
    labels = {'answers': row['answers'], 'all_classes': row['all_classes']}
    return {'input': row['input'], 'context': row['context'], 'all_labels': labels}


def version_2(row: Row) -> Row:
    return {name: row[name] for name in _V2}


def _longbench(shape: Callable[[Row], Row]) -> Loader:
    """Files below path: data/{name}.jsonl, as they are published, or {name}.jsonl."""
    published, bare = (layout({'test': place}, shape) for place in ('data/{name}.jsonl', '{name}.jsonl'))

    def load(path: Path, entry: Entry) -> Splits:
        return (published if (path / 'data').is_dir() else bare)(path, entry)

    load.__doc__ = 'Files below path: data/{name}.jsonl, or {name}.jsonl.'
    return load


LONG: dict[str, Loader] = {
    **{f'LongBench{name}Dataset': _longbench(question) for name in _QUESTIONS},
    **{f'LongBench{name}Dataset': _longbench(text) for name in _TEXTS},
    **{f'LongBench{name}Dataset': _longbench(classes) for name in _CLASSES},
    'LongBenchv2Dataset': layout({'test': SplitFile()}, version_2),
}
