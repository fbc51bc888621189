"""Benchmarks of medicine, chemistry, materials, biology and climate."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from rolecall.sources.datasets.conversions import LETTERS
from rolecall.sources.datasets.layouts import Entry, HubLoader, Loader, Shape, SplitFile, hub_layout, layout
from rolecall.sources.datasets.ranges import apply_range, sample
from rolecall.sources.datasets.rows import WHOLE, FilteredRows, ListRows, Row, Splits

_FILE: Mapping[str, SplitFile] = {WHOLE: SplitFile()}


def _choice(row: Row, question: str, options: list[str], label: str) -> Row:
    """A question with its options below it, and the letters they go from and to."""
    lines = '\n'.join(f'{letter}. {option}' for letter, option in zip(LETTERS, options, strict=False))
    added = {'options': options, 'question': f'{question}\n{lines}', 'label': label, 'prompt_mode': 'zero-shot'}
    return {**row, **added, 'start': 'A', 'end': LETTERS[len(options) - 1]}


def medmcqa(row: Row) -> Row:
    options = [row[name] for name in ('opa', 'opb', 'opc', 'opd')]
    subject = str(row['subject_name']).replace('_', ' ')
    return {**_choice(row, row['question'], options, LETTERS[row['cop']]), 'subject_name': subject}


def medbullets(row: Row) -> Row:
    options = [row[name] for name in ('opa', 'opb', 'opc', 'opd')] + [option for option in [row.get('ope')] if option]
    return _choice(row, row['question'], options, row['answer_idx'])


def nejm(row: Row) -> Row:
    lines = [line.strip() for line in row['Choices'].splitlines() if line.strip()]
    return _choice(row, row['Question'], [re.sub(r'^[A-Z]\.\s*', '', line) for line in lines], row['Answer'])


def chem_bench(row: Row) -> Row:
    return {'input': row['question'], **{letter: row[letter] for letter in 'ABCD'}, 'target': row['answer']}


def climate(row: Row) -> Row:
    question = f'{row["Question"]}\n{row["Options"]}' if row.get('Options') else row['Question']
    return {**row, 'input': question, 'target': row['Answer']}


def matbench(row: Row) -> Row:
    return {'problem': row['problem'], 'answer': row['answer']}


def stem(row: Row) -> Row:
    question = '\n'.join([row['question'], *row['options']])
    return {'question': question, 'answer': row['answer']}


def mmlu_cf(row: Row) -> Row:
    return {'input': row['Question'], **{letter: row[letter] for letter in 'ABCD'}, 'target': row['Answer']}


def gue(row: Row) -> Row:
    label = (row.get('meta_data') or {}).get('label', '')
    return {**row, 'output': f'{row["output"]} The prediction result is {label}.'}


def _reasoner(task: str = '{task}', shape: Shape | None = None, *, shots: str | None = '[:5]') -> Loader:
    """Files below path: {task}/dev/data.json and {task}/test/data.json; `mini_set` draws 150 test rows."""
    files = {'train': SplitFile(f'{task}/dev/data.json', range=shots), 'test': SplitFile(f'{task}/test/data.json')}
    inner = layout(files, shape)

    def load(path: Path, entry: Entry) -> Splits:
        splits = inner(path, entry)
        if entry.get('mini_set') and 'test' in splits:
            splits['test'] = sample(splits['test'], 150, seed=1024)
        return splits

    load.__doc__ = inner.__doc__
    return load


def _llm4mat(path: Path, entry: Entry) -> Splits:
    """The files `train_path` and `test_path` below path: the rows that have the `property`."""
    wanted = f'{{{entry.get("property")} :'
    splits = layout({'train': '{train_path}', 'test': '{test_path}'})(path, entry)
    limited: Splits = {
        name: FilteredRows(rows, lambda row: wanted in row['output'], str(path)) for name, rows in splits.items()
    }
    if entry.get('mini_set') and 'test' in limited:
        limited['test'] = apply_range(limited['test'], '[:150]')
    return {name: apply_range(rows, '[:5]') if name == 'train' else rows for name, rows in limited.items()}


def _unconditional(entry: Entry, base: Path | None) -> Splits:
    """`num` rows that all ask `prompt`."""
    return {WHOLE: ListRows([{'input': entry.get('prompt', ''), 'output': ''}] * int(entry.get('num', 1)))}


def _proteins(entry: Entry, base: Path | None) -> Splits:
    """1,000 rows, or `max_cut` if that is less, that all ask for a protein. There are no training rows."""
    tags = ' with <protein> </protein>' if entry.get('tag_bool', True) else ''
    count, most = 1000, int(entry.get('max_cut', -1))
    return {
        'test': ListRows(
            [{'input': f'Generate a protein sequence{tags}.', 'output': ''}]
            * (min(count, most) if most != -1 else count)
        )
    }


SCIENCE: dict[str, Loader] = {
    'Bioinstruction_Dataset': _reasoner(),
    'Bulk_modulus_material_Dataset': _reasoner('bulk_modulus_material'),
    'ChemBenchDataset': layout({split: f'{split}/{{name}}_benchmark.json' for split in ('dev', 'test')}, chem_bench),
    'Composition_material_Dataset': _reasoner('composition_material'),
    'GUE_Dataset': _reasoner(shape=gue),
    'LiveStemBenchDataset': layout(
        {'train': '{version}.json', 'test': '{version}.json'}, stem, version='livestembench-20241227'
    ),
    'LLM4ChemDataset': _reasoner(),
    'LLM4MatDataset': _llm4mat,
    'MatbenchDataset': layout({WHOLE: 'matbench_base_fold_0_{task}_test.json'}, matbench),
    'MedbulletsDataset': layout(_FILE, medbullets),
    'Mol_Instructions_Dataset': _reasoner(),
    'Mol_Instructions_Dataset_BioText': _reasoner(),
    'Mol_Instructions_Dataset_Protein_Design': _reasoner(),
    'NejmaibenchDataset': layout(_FILE, nejm),
    'OpiDataset': _reasoner(shots=None),
    'PEER_Dataset': _reasoner(),
}

SCIENCE_HUB: dict[str, HubLoader] = {
    'ClimaQADataset': hub_layout(climate, splits={WHOLE: 'train'}, config='task'),
    'Earth_Silver_MCQDataset': hub_layout(splits={WHOLE: 'multiple_choice'}),
    'MedmcqaDataset': hub_layout(medmcqa, splits={WHOLE: 'validation'}),
    'MMLUCFDataset': hub_layout(mmlu_cf, splits={'dev': '{name}_dev', 'test': '{name}_val'}),
    'SmolInstructDataset': hub_layout(
        splits={'validation': 'validation', 'test': 'test'}, keep=lambda row, entry: row['task'] == entry.get('name')
    ),
    'Uncond_material_Dataset': _unconditional,
    'Uncond_RNA_Dataset': _unconditional,
    'UPGDataset': _proteins,
}
