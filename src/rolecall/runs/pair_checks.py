"""What keeps a dataset and a model from running together, and what the linter finds before a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from rolecall.core.render.renderers import ApiRenderer
from rolecall.core.render.spans import Request
from rolecall.errors import ConfigError, DataError, Problem, RenderError, did_you_mean
from rolecall.experiment.inferencers.inferencer import Inferencer
from rolecall.experiment.lint import Finding
from rolecall.experiment.lint.linter import lint_config
from rolecall.experiment.opening.judge_config import JudgeComparison
from rolecall.experiment.opening.judges import JudgeEntry
from rolecall.experiment.opening.sampling import find_option, sampling_of
from rolecall.experiment.pairs.judge_pair import JudgePair
from rolecall.experiment.pairs.pair import Pair
from rolecall.models.http.media import has_media
from rolecall.models.protocol import Capabilities
from rolecall.runs.pair_run import PreparedRun
from rolecall.runs.pair_scoring import read_given_answers
from rolecall.sources.retrievers import Picked
from rolecall.strings import count_noun

_LOOKED_AT = 1000
"""Rows whose columns are looked at."""


def find_misspelt_fields(pair: Pair, judge: JudgeEntry) -> Iterator[Problem]:
    """Fields of a judge's template that no row fills."""
    rows = list(islice(pair.data.test, _LOOKED_AT))
    try:
        values = [fields for row in rows[:1] for fields in JudgePair(pair, judge).values(row)]
        columns = dict.fromkeys(column for row in rows for column in row)
        for fields in values[:1]:
            for name, meant in dict(judge.misspelt_fields({**columns, **fields})).items():
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
        columns_of_rows = [set(row) for row in islice(pair.data.test, _LOOKED_AT)]
    except DataError:
        return
    if columns_of_rows and not any(column in columns for columns in columns_of_rows):
        yield Problem(
            'eval_cfg.cluster', f'no row has the column {column!r}.', did_you_mean(column, columns_of_rows[0])
        )


def check_columns(pair: Pair) -> Iterator[Problem]:
    """Columns that the prompts need and no row has: the dataset cannot be asked about, others can."""
    try:
        if pair.lacks_columns:
            pair.check_row(next(iter(pair.data.test)))
    except RenderError as error:
        yield Problem('reader_cfg.input_columns', str(error))
    except DataError:
        return


def check_opponents(pair: Pair, comparison: JudgeComparison | None, base: Path | None) -> Iterator[Problem]:
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
    if not can.media and any(has_media(message) for message in messages):
        yield f'{model} does not accept images, audio or video.', 'Use a model that does.'


def _find_refused_parameters(pair: Pair, can: Capabilities, model: str) -> Iterator[tuple[str, str]]:
    """Sampling parameters that the model's API would refuse in every row."""
    entry = pair.model_entry.entry if pair.model_entry is not None else {}
    sampling = sampling_of(pair.task.inferencer.options, entry).as_dict()
    for parameter in can.refuses:
        value = sampling.get(parameter, find_option(parameter, entry))
        if value and (parameter, value) != ('n', 1):
            key = 'stopping_criteria' if parameter == 'stop' else parameter
            what = f'{parameter}={value!r} is set, and the Responses API of model {model} does not have it.'
            yield what, f"Leave {key} out, or set endpoint='chat' in the model entry."


def _first_request(pair: Pair) -> Request | None:
    """The first row's request without examples; None where that row cannot be worded or read."""
    try:
        for row in islice(pair.data.test, 1):
            step = pair.step(row, Picked(()))
            return step.requests[0][1] if step is not None else None
    except (RenderError, DataError):
        pass
    return None


_LINTED_ROWS, _FEWEST_LINTED, _LINTED_REQUESTS = 20, 10, 10_000
"""Rows of each dataset that are linted; where there are many pairs, fewer, so that there are not too many requests."""
_OF_ROWS = ('row-fails', 'context-overflow')
"""Rules whose errors are outcomes of single rows."""
_CHECKED_BEFORE = ('duplicate-abbr',)


def lint_prepared(prepared: PreparedRun) -> Iterator[Finding]:
    """What the linter finds on the pairs that the run is about to ask."""
    limit = max(_FEWEST_LINTED, min(_LINTED_ROWS, _LINTED_REQUESTS // max(1, len(prepared.pairs))))
    findings = lint_config(prepared.experiment, limit=limit)
    names = {pair.name for pair in prepared.pairs}
    # A pair that was left out is reported already.
    return (finding for finding in findings if ' × ' not in finding.where or finding.where in names)


def stops_run(finding: Finding) -> bool:
    """Whether an error concerns the whole dataset. A few rows that fail are outcomes of those rows."""
    return finding.rule not in _OF_ROWS or finding.count >= finding.seen


def find_lint_problems(prepared: PreparedRun) -> list[Problem]:
    """What would stop the run of the pairs that can be asked, for a config that has other problems, too."""
    findings = lint_prepared(prepared) if prepared.pairs else ()
    errors = [finding for finding in findings if finding.severity == 'error' and finding.rule not in _CHECKED_BEFORE]
    return [as_problem(finding) for finding in errors if stops_run(finding)]


def as_problem(finding: Finding) -> Problem:
    return Problem(f'{finding.where} ({finding.rule})', finding.message, finding.remedy)


def refuse_run(errors: Sequence[Finding]) -> ConfigError:
    """The error of a run that is not begun."""
    problems = [as_problem(finding) for finding in errors]
    what = f'{count_noun(len(errors), "error")} found before the run; nothing was sent.'
    remedy = 'Correct the config, or run it as it is with --force (force=True).'
    return ConfigError([*problems, Problem('lint', what, remedy)])


def describe_keys(findings: Sequence[Finding]) -> Iterator[str]:
    """Keys without effect: each slip, and those of other systems together."""
    for finding in findings:
        if finding.rule == 'unknown-key':
            meant = finding.remedy.partition('?')[0] if finding.remedy.startswith('Did') else ''
            yield f'{finding.where}: {finding.message}{f" {meant}?" if meant else ""}'
    if foreign := [finding for finding in findings if finding.rule == 'foreign-key']:
        keys = dict.fromkeys(
            key for finding in foreign for key in finding.message.partition(': ')[2].rstrip('.').split(', ')
        )
        yield f'keys of OpenCompass or AISBench without effect here: {", ".join(keys)}.'
