"""Inferencers of an installed OpenCompass that search for an answer, used as they are: tree of thoughts.

The package's class decides what is asked next; every request is worded by our renderer for the model, and goes through
the row's `Asker` like all others.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, ClassVar

from rolecall.core.program import Program
from rolecall.core.program.compiled import render_with
from rolecall.core.prompts.pieces import Origin, Row, Text
from rolecall.core.prompts.script import BareText, Script
from rolecall.core.render.renderers import Renderer
from rolecall.experiment.inferencers.inferencer import Asker, Prediction, find_fault, only_step
from rolecall.experiment.pairs.pair import Pair
from rolecall.models.protocol import ModelError, Reply, Sampling
from rolecall.sources.retrievers import Picked
from rolecall.usercode import printing_to_stderr


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
        """Ask about one row and conclude."""
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
