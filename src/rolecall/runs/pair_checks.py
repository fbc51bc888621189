"""Whether a dataset and a model can run together: the columns that scoring needs, and the model's capabilities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from rolecall.core.render.renderers import ApiRenderer
from rolecall.core.render.spans import Request
from rolecall.errors import DataError, Problem, RenderError, did_you_mean
from rolecall.experiment.inferencers.inferencer import Inferencer
from rolecall.experiment.opening.comparisons import Comparison
from rolecall.experiment.opening.judges import JudgeEntry
from rolecall.experiment.opening.sampling import find_option, sampling_of
from rolecall.experiment.pairs.judge_pair import JudgePair
from rolecall.experiment.pairs.pair import Pair
from rolecall.models.protocol import Capabilities
from rolecall.runs.opponents import read_given_answers
from rolecall.sources.retrievers import Picked

_LOOKED_AT = 1000
"""Rows whose columns are looked at."""
_MEDIA = ('image_url', 'audio_url', 'video_url', 'input_audio', 'image', 'audio', 'video')


def find_misspelt_fields(pair: Pair, judge: JudgeEntry) -> Iterator[Problem]:
    """Fields of a judge's template that no row fills."""
    rows = list(islice(pair.data.test, _LOOKED_AT))
    try:
        values = [one for row in rows[:1] for one in JudgePair(pair, judge).values(row)]
        columns = dict.fromkeys(column for row in rows for column in row)
        for one in values[:1]:
            for name, meant in dict(judge.misspelt_fields({**columns, **one})).items():
                what = f"the judge's template has the field {{{name}}}, and nothing fills it."
                yield Problem(f'{judge.where}.prompt_template', what, f'Did you mean {{{meant}}}?')
    except (RenderError, DataError):
        return


def cluster_column(pair: Pair) -> Any:
    evaluation = pair.task.entry.get('eval_cfg')
    return evaluation.get('cluster') if isinstance(evaluation, Mapping) else None


def check_cluster(pair: Pair) -> Iterator[Problem]:
    column = cluster_column(pair)
    if column is None:
        return
    try:
        seen = [set(row) for row in islice(pair.data.test, _LOOKED_AT)]
    except DataError:
        return
    if seen and not any(column in columns for columns in seen):
        yield Problem('eval_cfg.cluster', f'no row has the column {column!r}.', did_you_mean(column, seen[0]))


def check_columns(pair: Pair) -> Iterator[Problem]:
    """Columns that the prompts need and no row has: the dataset cannot be asked about, others can."""
    try:
        if pair.lacks_columns:
            pair.check_row(next(iter(pair.data.test)))
    except RenderError as error:
        yield Problem('reader_cfg.input_columns', str(error))
    except DataError:
        return


def check_opponents(pair: Pair, comparison: Comparison | None, base: Path | None) -> Iterator[Problem]:
    """Opponents whose answers are not there: a column that no row has, a file that cannot be read."""
    where = 'eval_cfg.evaluator.against'
    for opponent in comparison.opponents if comparison is not None else ():
        try:
            if opponent.path is not None:
                read_given_answers(opponent.path, pair.task.abbr, base)
            elif (column := opponent.column) is not None:
                rows = [set(row) for row in islice(pair.data.test, _LOOKED_AT)]
                if rows and not any(column in columns for columns in rows):
                    yield Problem(where, f'no row has the column {column!r}.', did_you_mean(column, rows[0]))
        except DataError as error:
            yield Problem(where, str(error))


_NEEDS = {
    'generate': ('generates answers; model {model} cannot generate.', 'Use a model that can.'),
    'score': (
        'needs prompt log-probabilities; model {model} does not provide them.',
        "Use a local model, or a server that gives them (score='echo' or 'prompt_logprobs'); or use GenInferencer.",
    ),
}


def find_lacking(pair: Pair, inferencer: Inferencer, can: Capabilities, model: str) -> Iterator[tuple[str, str]]:
    """What the pair needs and the model lacks."""
    name = pair.task.inferencer.name
    for need in inferencer.needs:
        if not getattr(can, need):
            what, remedy = _NEEDS[need]
            yield f'{name} {what.format(model=model)}', remedy
    if name == 'CLPInferencer' and pair.model_entry is not None and isinstance(pair.model_entry.renderer, ApiRenderer):
        what = 'CLPInferencer appends choices to a text, but this model is sent messages.'
        yield what, 'Use a model that takes text.'
    request = _first_request(pair)
    if pair.task.inferencer.options.get('output_schema') is not None and not can.json_schema:
        yield f'output_schema: model {model} cannot be held to a JSON Schema.', 'Leave output_schema out.'
    if 'generate' in inferencer.needs:
        yield from _find_refused_parameters(pair, can, model)
    if pair.task.inferencer.prefill and not can.prefill:
        yield f'prefill=True starts the answer, but model {model} cannot continue it.', 'Leave prefill out.'
    if getattr(pair.task.wording.prompt, 'needs_media', False) and not (can.media and isinstance(request, list)):
        yield f'{pair.task.abbr} asks about images; model {model} takes text alone.', 'Use a model that takes images.'
    if not isinstance(request, list) or not request or not isinstance(request[0], Mapping):
        if name == 'CLPInferencer' or request is None or not can.chat or isinstance(request, list):
            return
        yield (
            f'{model} takes messages, but its entry renders a text.',
            "Give it a meta template with api_role, or ask for completions with endpoint='completions'.",
        )
        return
    if not can.chat:
        yield f'{model} takes text, but its entry renders messages.', 'Give it a meta_template, or a chat_template.'
    messages = [message for message in request if isinstance(message, Mapping)]
    if not can.system and any(message.get('role') == 'system' for message in messages):
        yield f'{model} has no system role.', "Add fallback_role='HUMAN' to the SYSTEM speech."
    if not can.media and any(_has_media(message) for message in messages):
        yield f'{model} does not accept images, audio or video.', 'Use a model that does.'


def _find_refused_parameters(pair: Pair, can: Capabilities, model: str) -> Iterator[tuple[str, str]]:
    """Sampling parameters that the model's API would refuse in every row."""
    entry = pair.model_entry.entry if pair.model_entry is not None else {}
    sampling = sampling_of(pair.task.inferencer.options, entry).as_dict()
    for parameter in can.refuses:
        value = sampling.get(parameter, find_option(parameter, entry))
        if value and (parameter, value) != ('n', 1):
            written = 'stopping_criteria' if parameter == 'stop' else parameter
            what = f'{parameter}={value!r} is set, and the Responses API of model {model} does not have it.'
            yield what, f"Leave {written} out, or set endpoint='chat' in the model entry."


def _has_media(message: Mapping[str, Any]) -> bool:
    content = message.get('content')
    return isinstance(content, (list, tuple)) and any(part.get('type') in _MEDIA for part in content)


def _first_request(pair: Pair) -> Request | None:
    """The first row's request without examples; None where that row cannot be worded or read."""
    try:
        for row in islice(pair.data.test, 1):
            step = pair.step(row, Picked(()))
            return step.requests[0][1] if step is not None else None
    except (RenderError, DataError):
        pass
    return None
