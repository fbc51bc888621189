"""From the name and options of an inferencer in a config to the inferencer itself."""

from __future__ import annotations

import asyncio
import inspect
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, ClassVar

from rolecall.checking import OptionReader, argument_problems
from rolecall.core.program import Program
from rolecall.core.program.compiled import render_with
from rolecall.core.prompts.pieces import Origin, Row, Text
from rolecall.core.prompts.script import BareText, Script
from rolecall.core.render.renderers import Renderer
from rolecall.errors import ConfigError, Problem
from rolecall.experiment.inferencers.inferencer import Asker, Inferencer, Prediction, find_fault, only_step
from rolecall.experiment.inferencers.losses import DECIDE_BY, SWCELossInferencer
from rolecall.experiment.opening.inferencer_entries import INFERENCERS
from rolecall.experiment.opening.sampling import check_sampling, check_stops, find_option, sampling_of
from rolecall.experiment.pairs.pair import Pair
from rolecall.models.protocol import ModelError, Reply, Sampling
from rolecall.registry import is_reference_class
from rolecall.sources.retrievers import Picked
from rolecall.usercode import printing_to_stderr, user_code


def build_inferencer(
    name: str,
    options: Mapping[str, Any],
    *,
    entry: Mapping[str, Any],
    infer_mode: Any = 'every',
    samples: int | None = None,
    extract: Callable[[str], Any] | None = None,
    own: Any = None,
) -> Inferencer:
    """The inferencer of a dataset for the model of an entry. Everything wrong with its options is reported at once.

    `own` is the user's own: an object, or a class that is called with those options it takes; `sampling`, `samples` and
    `extract` (the postprocessor) are offered, too.

    >>> build_inferencer('GenInferencer', {'max_out_len': 8}, entry={'max_out_len': 512}).needs
    ('generate',)
    """
    inferencer = INFERENCERS.get(name) if own is None else own
    if inferencer is None:
        names = ', '.join(INFERENCERS)
        remedy = f'These can be run: {names}.'
        if name == 'ToTInferencer':
            remedy = "OpenCompass' own class runs where that package is installed: load_config(…, foreign='real')."
        raise ConfigError(Problem('', f'{name} can be previewed, but not run.', remedy))
    problems = [*_check_options(options), *check_stops(options, entry), *check_sampling(options, entry)]
    if problems:
        raise ConfigError(problems)
    before = options.get('normalizing_str')
    offered = {
        **options,
        'sampling': sampling_of(options, entry),
        'samples': samples
        or find_option('sc_size', options)
        or find_option('num_return_sequences', options, entry)
        or 1,
        'extract': extract or str.strip,
        'infer_mode': infer_mode,
        'decide_by': options.get('decide_by') or ('whole' if before is None else 'normalised'),
        'normalizing_str': before,
        'single_token': options.get('single_token', True),
    }
    if is_reference_class(inferencer):
        return PackageInferencer(inferencer, options, offered['sampling'])
    return _make(name, inferencer, offered) if isinstance(inferencer, type) else inferencer


def _make(name: str, kind: type[Any], offered: Mapping[str, Any]) -> Inferencer:
    """The class called with what it takes of the options, the model's sampling among them."""
    wanted = inspect.signature(kind).parameters
    accepted = {option: value for option, value in offered.items() if option in wanted}
    if problems := argument_problems(kind, accepted, name=name):
        raise ConfigError(problems)
    with user_code(f'making the inferencer {name}', where=''):
        inferencer: Inferencer = kind(**accepted)
    return inferencer


def _check_options(options: Mapping[str, Any]) -> list[Problem]:
    reader = OptionReader(options)
    reader.one_of('truncate')
    decide_by = reader.one_of('decide_by', DECIDE_BY)
    if options.get('normalizing_str') is None and decide_by in ('normalised', 'normalised_sum'):
        reader.refuse('decide_by', f'{decide_by} needs a normalizing_str.', "Give one, '\\n' for instance.")
    reader.text('normalizing_str')
    reader.whole('max_seq_len')
    size = reader.whole('block_size') or SWCELossInferencer().block_size
    if (stride := reader.whole('stride')) is not None and stride > size:
        reader.refuse('stride', f'windows of {size} tokens that move by {stride} leave tokens out.', 'Make it smaller.')
    if not isinstance(options.get('output_schema'), (Mapping, type(None))):
        remedy = "Write it as a dict: {'type': 'object', 'properties': {…}}."
        reader.refuse('output_schema', f'must be a JSON Schema, got {options["output_schema"]!r:.60}.', remedy)
    return reader.problems


@dataclass(frozen=True, slots=True)
class PackageInferencer:
    """Calls `tot_solve` of the package's class for each row. What it returns is the prediction: a list of candidates.

    Where the package would take several beams, as many samples are drawn.
    """

    needs: ClassVar[tuple[str, ...]] = ('generate',)
    asks_further: ClassVar[bool] = True
    """What is asked depends on the replies before."""
    kind: type[Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    sampling: Sampling = field(default_factory=Sampling)

    async def infer(self, pair: Pair, row: Row, picked: Picked, ask: Asker) -> Prediction:
        step = only_step(pair, row, picked)
        if pair.model_entry is None:
            raise ModelError(f'{self.kind.__name__} needs a model.')
        prompt = next(iter(pair.previews(0, row, picked))).prompt
        model = _AskedModel(ask, self.sampling, pair.model_entry.renderer, asyncio.get_running_loop())
        thread = ThreadPoolExecutor(1, 'rolecall-package')  # its own: a model may need those of the loop
        try:
            value = await asyncio.wrap_future(thread.submit(self._solve, model, prompt))
        except asyncio.CancelledError:
            model.stopped = True
            raise
        except Exception as error:  # the package's code may raise anything
            if error is model.failed:
                raise
            raise ModelError(f'{self.kind.__name__} raised {type(error).__name__}: {error}') from error
        finally:
            thread.shutdown(wait=False)  # the loop must go on: it answers what the thread may wait for
        replies = model.replies
        answered = [reply for reply in replies if reply.outcome == 'ok']
        return Prediction(
            value,
            replies=tuple(reply.text for reply in replies),
            reasoning=tuple(reply.reasoning for reply in replies) if any(each.reasoning for each in replies) else (),
            details={**step.details, 'requests': len(replies)},
            shots_dropped=step.shots_dropped,
            **find_fault(answered or replies),
        )

    def _solve(self, model: _AskedModel, prompt: Any) -> Any:
        with tempfile.TemporaryDirectory(prefix='rolecall-inferencer-') as folder, printing_to_stderr:
            options = {
                'max_out_len': self.sampling.max_out_len,
                **self.options,
                'output_json_filepath': folder,
            }
            solution = self.kind(model=model, **options).tot_solve(prompt)
        return [str(step) for step in solution] if isinstance(solution, (list, tuple)) else str(solution)


class _AskedModel:
    """As much of the package's model as its inferencers call; in their thread, while the loop answers."""

    is_api = True

    def __init__(self, ask: Asker, sampling: Sampling, renderer: Renderer, loop: asyncio.AbstractEventLoop) -> None:
        self._ask = ask
        self._sampling = sampling
        self._renderer = renderer
        self._loop = loop
        self.replies: list[Reply] = []
        self.failed: Exception | None = None
        """Why a request got no reply."""
        self.stopped = False

    def generate_from_template(
        self, templates: Sequence[Any], max_out_len: int | None = None, num_return_sequences: int = 1, **_: Any
    ) -> list[str]:
        """The replies to prompts, `num_return_sequences` to each. How they are sampled, the config has said."""
        return [text for prompt in templates for text in self._draw(str(prompt), num_return_sequences)]

    def _draw(self, prompt: str, samples: int) -> list[str]:
        script = Script((BareText((Text(prompt, Origin('text')),), 'round'),), plain=True)
        request = Program(script, render_with(self._renderer, 'gen'))({})
        drawn = []
        for sample in range(samples):
            if self.stopped:
                raise RuntimeError('the run was stopped.')
            call = self._ask.generate(request, self._sampling, sample=sample)
            try:
                drawn.append(asyncio.run_coroutine_threadsafe(call, self._loop).result())
            except Exception as error:
                self.failed = error
                raise
        self.replies += drawn
        return [reply.text for reply in drawn]
