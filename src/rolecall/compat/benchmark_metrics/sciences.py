"""Benchmarks of the sciences: molecules, seismic waves, genomes and agriculture."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Sequence
from typing import Any

from rolecall.compat.benchmark_metrics.long_context import rouge_l_of
from rolecall.errors import import_extra
from rolecall.scoring.metrics.metric import Mark, comparison
from rolecall.scoring.texts import chinese_words, contents_between, strip_text

_DENIES = re.compile(r'\b(?:negative|no|not|cannot|absence|absent|lacks|fails)\b', re.IGNORECASE)
_AFFIRMS = re.compile(r'\b(?:positive|yes|presence|found|detected|identified|located|confirms?)\b', re.IGNORECASE)


@comparison('score')
def molecule_similarity(prediction: str, gold: Any, tag: str = 'MOLFORMULA|SMILES|IUPAC') -> Mark:
    """How alike the last tagged molecule and the gold one are: Tanimoto similarity of Morgan fingerprints."""
    (kind, ours), (_, right) = (_last_molecule(text, tag) for text in (prediction, strip_text(gold)))
    written = [ours, right]
    if kind == 'SELFIES':
        selfies = import_extra('selfies', extra='molecules', purpose='to read SELFIES')
        try:
            written = [selfies.decoder(text) for text in written]
        except selfies.DecoderError:
            written = []
    molecules = [_rdkit('Chem').MolFromSmiles(text) for text in written]
    if None in molecules or not molecules:
        return Mark(0.0, parts={'valid_score': 0.0})
    make = _rdkit('Chem.rdFingerprintGenerator').GetMorganGenerator(radius=2, fpSize=2048).GetFingerprint
    return Mark(_rdkit('DataStructs').TanimotoSimilarity(*map(make, molecules)), parts={'valid_score': 1.0})


def _last_molecule(text: str, tag: str) -> tuple[str, str]:
    """The last tag and its content; the whole text if there is none."""
    tagged = contents_between(text, re.compile(f'<(?:{tag})>'), re.compile(f'</(?:{tag})>'))
    return (tag, tagged[-1]) if tagged and (tagged[-1] or tag != 'SELFIES') else ('', text)


def _rdkit(module: str) -> Any:
    library = import_extra(f'rdkit.{module}', extra='molecules', purpose='to compare molecules')
    import_extra('rdkit.RDLogger', extra='molecules', purpose='to compare molecules').DisableLog('rdApp.*')
    return library


@comparison('rmse', unit='', lower_is_better=True)
def curve_error(prediction: str, gold: Any) -> Mark:
    """The root mean squared error of the last list in square brackets, cut or filled with 0 to the right length."""
    lists = contents_between(prediction, re.compile(r'\['), re.compile(r'\]'))
    try:
        numbers = ast.literal_eval(f'[{lists[-1]}]') if lists else []
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        numbers = []
    if not all(isinstance(number, float) for number in numbers):
        numbers = []
    curve = [float(number) for number in gold]
    filled = [*numbers, *[0.0] * len(curve)]
    error = math.sqrt(sum((own - right) ** 2 for own, right in zip(filled, curve, strict=False)) / len(curve))
    return Mark(error, parts={'valid': float(bool(numbers) and len(numbers) == len(curve))})


def _correlation(tally: Sequence[float]) -> float:
    """Matthews' correlation of true and false positives and negatives."""
    both, only_ours, only_gold, neither = tally
    product = (both + only_ours) * (both + only_gold) * (neither + only_ours) * (neither + only_gold)
    return (both * neither - only_ours * only_gold) / math.sqrt(product) if product else 0.0


@comparison('matthews_correlation', total=_correlation)
def positive_correlation(prediction: str, gold: Any) -> Mark:
    """Matthews' correlation of the verdicts `positive` and anything else with the gold ones."""
    ours, right = (text.strip().lower() == 'positive' for text in (prediction, strip_text(gold)))
    cells = tuple(float(cell == (ours, right)) for cell in ((True, True), (True, False), (False, True), (False, False)))
    return Mark(float(ours == right), correct=ours == right, tally=cells)


def read_polarity(text: str) -> str:
    """`positive` or `negative`: after `The prediction result is`, or else whether the reply affirms or denies anything.

    >>> read_polarity('<think>No.</think>The prediction result is positive.'), read_polarity('It lacks one.')
    ('positive', 'negative')
    """
    reply = re.sub(r'<think>.*?(?:</think>|\Z)', '', text, flags=re.DOTALL)
    stated = re.search(r'\bThe prediction result is\s+(positive|negative)\b', reply, re.IGNORECASE)
    if stated:
        return stated[1].lower()
    return 'negative' if _DENIES.search(reply) else 'positive' if _AFFIRMS.search(reply) else ''


def _micro_f1(tally: Sequence[float]) -> float:
    both, ours, right = tally
    return 2 * both / (ours + right) if ours + right else 0.0


@comparison('F1Score', total=_micro_f1)
def letters_f1(prediction: str, gold: Any) -> Mark:
    """F1 of the letters from A to D that commas separate, counted over all rows."""
    ours, right = (set(re.sub('[^a-d,]+', '', text.lower()).split(',')) for text in (prediction, strip_text(gold)))
    counts = (float(len(ours & right)), float(len(ours)), float(len(right)))
    return Mark(_micro_f1(counts), correct=ours == right, tally=counts)


@comparison('AvgRougeScore')
def blanks_rouge(prediction: str, gold: Any) -> float:
    """ROUGE-L of the blanks, which commas separate, in jieba's words; a missing blank counts as `无内容`."""
    reply = re.sub(r'(?:正确答案|correct answer)[:：]', '', prediction, flags=re.IGNORECASE).strip()
    right = [blank.strip() for blank in strip_text(gold).replace('，', ',').split(',')]
    ours = [blank.strip() for blank in reply.split(',')] if len(right) > 1 else [reply]
    ours += ['无内容'] * len(right)
    pairs = [(_spaced(own) or '无内容', _spaced(blank)) for own, blank in zip(ours, right, strict=False)]
    return sum(rouge_l_of(own, blank) for own, blank in pairs) / len(pairs)


def _spaced(text: str) -> str:
    """The words of a blank, which is one sentence: a full stop is one of its words."""
    return ' '.join(chinese_words(text)).replace('.', '．')
