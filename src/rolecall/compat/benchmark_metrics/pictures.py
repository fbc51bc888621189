"""Questions about pictures, films and sounds: RefCOCO, MMMU-Pro, MMStar, RealWorldQA, TextVQA and others."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from rolecall.scoring.blame import ScoringError
from rolecall.scoring.metrics.metric import Mark, comparison
from rolecall.scoring.readers.native import option_in, read_choice
from rolecall.scoring.texts import alternatives, bare_words, names_whole, parse_gold, strip_text
from rolecall.strings import edit_distance

_SOUNDS = {'A': 'laughter', 'B': 'sigh', 'C': 'cough', 'D': 'throatclearing', 'E': 'sneeze', 'F': 'sniff'}
_AGREEING = 3
"""An answer that this many people gave is fully right (VQA)."""
Box = Sequence[float]


@comparison('Accuracy')
def boxes(
    prediction: str,
    gold: Any,
    iou_threshold: float = 0.5,
    coord_scale: float = 1000.0,
    reference_bbox_key: str = 'bbox',
    image_width_key: str = 'image_width',
    image_height_key: str = 'image_height',
    metric_prefix: str = 'Accuracy',
    clip_to_image: bool = True,
    smart_resize_cfg: Mapping[str, int] | None = None,
) -> Mark:
    """The share of boxes that overlap the gold one by at least `iou_threshold` (intersection over union)."""
    facts = _facts_of(gold)
    right = [float(edge) for edge in facts[reference_bbox_key]]
    width, height = float(facts[image_width_key]), float(facts[image_height_key])
    ours = _scale_box(read_box(prediction), width, height, coord_scale, smart_resize_cfg)
    if clip_to_image:
        ours = [min(max(edge, 0.0), limit) for edge, limit in zip(ours, (width, height) * 2, strict=True)]
    overlap = _overlap(ours, right)
    return Mark(float(overlap >= iou_threshold), correct=overlap >= iou_threshold, parts={'iou': overlap})


@comparison('Overall')
def options_by_category(prediction: str, gold: Any) -> Mark:
    """The share of rows that choose the gold letter or state its text; also by category.

    The gold answer is a dict with `choices`, `answer` and `category`, or a list of these, or JSON of either.
    """
    return _mark_choice(prediction, gold)


@comparison('Overall')
def reasoned_options(prediction: str, gold: Any) -> Mark:
    """Like the same without reasoning, read on the one line that begins with `Answer:`."""
    lines = [line.strip() for line in prediction.split('\n') if line.strip().startswith('Answer:')]
    rest = lines[0].removeprefix('Answer:').strip() if len(lines) == 1 else prediction
    return _mark_choice(rest, gold)


@comparison('accuracy')
def stated_answer(prediction: str, gold: Any) -> bool:
    """The share of rows whose answer after `ANSWER:` is the gold one, in any case."""
    stated = re.search(r'ANSWER:\s*(.*)', prediction)
    return stated is not None and stated[1].strip().lower() == _answer_of(gold).lower()


@comparison('accuracy')
def video_options(prediction: str, gold: Any) -> bool:
    """The share of rows that choose the gold letter from A to F."""
    return option_in(prediction, 'ABCDEF') == _answer_of(gold)


@comparison('accuracy')
def sounds(prediction: str, gold: Any) -> bool:
    """The share of rows whose first letter stands for the gold sound."""
    return _SOUNDS.get(prediction.strip()[:1]) == strip_text(gold)


@comparison('accuracy')
def vqa_accuracy(prediction: str, gold: Any) -> float:
    """The share of people's answers (ten each) that agree, as VQA counts it: three agreeing others are enough."""
    answers = [answer['answer'] if isinstance(answer, Mapping) else answer for answer in alternatives(gold)]
    accepted, ours = [_bare_answer(answer) for answer in answers], _bare_answer(prediction)
    if not accepted:
        raise ScoringError('the row has no answers to compare with.')
    others = [sum(answer == ours for at, answer in enumerate(accepted) if at != out) for out in range(len(accepted))]
    return sum(min(1.0, count / _AGREEING) for count in others) / len(accepted)


@comparison('accuracy')
def nearest_candidate(prediction: str, gold: Any) -> bool:
    """The share of rows whose reply is nearest (edit distance) to the candidate that `label` names."""
    facts = _facts_of(gold)
    distances = [
        min(edit_distance(prediction, spelling) for spelling in alternatives(candidate))
        for candidate in facts['candidates']
    ]
    return distances.index(min(distances)) == int(facts['label'])


def read_box(text: str) -> list[float]:
    """The first four numbers in square brackets; zeros without them.

    >>> read_box('The box is [1, 2.5, 30, 40].'), read_box('none')
    ([1.0, 2.5, 30.0, 40.0], [0.0, 0.0, 0.0, 0.0])
    """
    number = r'\s*(-?\d+(?:\.\d+)?)\s*'
    box = re.search(rf'\[{number},{number},{number},{number}\]', text)
    return [float(edge) for edge in box.groups()] if box else [0.0] * 4


def _bare_answer(text: Any) -> str:
    """An answer as VQA compares it; one that is only an article or a sign is kept, so that no empty reply equals it."""
    plain = strip_text(text).lower()
    return ' '.join(bare_words(text)) or ' '.join(re.findall(r'[^\W_]+', plain)) or plain


def _mark_choice(reply: str, gold: Any) -> Mark:
    choices, answer, category = _choices_of(gold)
    right = _choose(reply.replace('<|im_end|>', ''), choices) == answer
    return Mark(float(right), correct=right, parts={str(category): float(right)} if category else {})


def _choose(reply: str, choices: Mapping[str, Any]) -> str:
    """The letter a reply chooses, or the one option whose text it states or contains."""
    chosen = read_choice(reply, list(choices), {'options': list(map(strip_text, choices.values()))})
    if chosen is not None and chosen.counts:
        return chosen.value or ''
    named = [name for name, text in choices.items() if names_whole(reply.lower(), strip_text(text).lower())]
    return named[0] if len(named) == 1 else ''


def _facts_of(gold: Any) -> Mapping[str, Any]:
    facts = parse_gold(gold)
    if not isinstance(facts, Mapping):
        raise ScoringError(f'expected a dict as the gold answer, got {gold!r:.60}.')
    return facts


def _choices_of(gold: Any) -> tuple[Mapping[str, Any], str, Any]:
    facts = parse_gold(gold)
    if isinstance(facts, Mapping):
        choices, answer, category = facts['choices'], facts['answer'], facts.get('category')
    else:
        choices, answer, category = facts
    return parse_gold(choices), strip_text(answer), category


def _answer_of(gold: Any) -> str:
    return strip_text(gold.get('answer') if isinstance(gold, Mapping) else gold)


def _scale_box(box: Box, width: float, height: float, scale: float, resize: Mapping[str, int] | None) -> list[float]:
    across, down = width / scale, height / scale
    if resize is not None:
        tall, wide = _resize(height, width, resize)
        across, down = across * wide / width, down * tall / height
    return [edge * factor for edge, factor in zip(box, (across, down) * 2, strict=True)]


def _resize(height: float, width: float, options: Mapping[str, int]) -> tuple[int, int]:
    """The size at which a model sees a picture: multiples of `factor`, between `min_pixels` and `max_pixels`."""
    factor = options.get('factor', 32)
    least, most = options.get('min_pixels', 32 * 32 * 16), options.get('max_pixels', 32 * 32 * 4 * 16384)
    tall, wide = (max(factor, round(side / factor) * factor) for side in (height, width))
    if tall * wide > most:
        shrink = math.sqrt(height * width / most)
        tall, wide = (max(factor, math.floor(side / shrink / factor) * factor) for side in (height, width))
    elif tall * wide < least:
        grow = math.sqrt(least / (height * width))
        tall, wide = (max(factor, math.ceil(side * grow / factor) * factor) for side in (height, width))
    return tall, wide


def _overlap(ours: Box, right: Box) -> float:
    """Intersection over union; 0 for a box without an area."""
    width = min(ours[2], right[2]) - max(ours[0], right[0])
    height = min(ours[3], right[3]) - max(ours[1], right[1])
    shared = max(0.0, width) * max(0.0, height)
    areas = sum(max(0.0, box[2] - box[0]) * max(0.0, box[3] - box[1]) for box in (ours, right))
    return shared / (areas - shared) if areas > shared else float(areas > 0)
