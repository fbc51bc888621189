"""The training loop: one causal language model, all its weights or LoRA adapters, one device.

Only positions with a label get logits: prompts are long, answers short, and vocabularies large.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rolecall.apps.sft.training_file import IGNORED
from rolecall.apps.tuning.sequences import TokenSequence, order_batches
from rolecall.apps.tuning.tune_settings import TuneSettings
from rolecall.errors import import_extra
from rolecall.models.protocol import ModelError
from rolecall.models.transformers.weights import LoadedModel, import_hf_package, no_progress_bar
from rolecall.strings import count_noun

_WARM_UP = 0.03
_LARGEST_GRADIENT = 1.0


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """One update."""

    number: int
    loss: float
    """Mean over the answer tokens of the batch, before the update."""
    tokens: int


def count_steps(rows: int, settings: TuneSettings) -> int:
    """The number of updates.

    >>> count_steps(10, TuneSettings(batch_size=4, epochs=2))
    6
    """
    steps = settings.epochs * math.ceil(rows / settings.batch_size)
    return steps if settings.max_steps is None else min(steps, settings.max_steps)


class Trainer:
    """A loaded model in training."""

    def __init__(self, loaded: LoadedModel, rows: Sequence[TokenSequence], settings: TuneSettings) -> None:
        self._torch = torch = import_hf_package('torch')
        torch.manual_seed(settings.seed)
        self._settings = settings
        self._rows = rows
        self._pad = loaded.pad_id
        self._device = loaded.device
        takes = inspect.signature(loaded.model.forward).parameters
        self._selects_logits = 'logits_to_keep' in takes
        self._takes_positions = loaded.takes_positions
        self._pads_left = loaded.shares and (loaded.takes_positions or 'attention_mask' in takes)
        loaded.model.config.use_cache = False
        self.model = self._add_adapters(loaded.model)
        if settings.gradient_checkpointing:
            self.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={'use_reentrant': False})
            self.model.enable_input_require_grads()
        self._weights = {name: weight for name, weight in self.model.named_parameters() if weight.requires_grad}
        on_cuda = self._device.type == 'cuda'
        self._optimizer = torch.optim.AdamW(self._weights.values(), lr=settings.rate, weight_decay=0.0, fused=on_cuda)
        self._steps = count_steps(len(rows), settings)
        self.done = 0

    def steps(self) -> Iterator[TrainingStep]:
        """Train to the end, from wherever the state is; one update for each item."""
        with _memory_errors(self._torch):
            for number, batch in self._plan():
                if number < self.done:
                    continue
                loss, tokens = self._update([self._rows[i] for i in batch], number)
                self.done = number + 1
                yield TrainingStep(self.done, loss, tokens)

    def held_out_loss(self, rows: Sequence[TokenSequence]) -> float:
        """The mean loss over the answer tokens of rows that are not trained on."""
        self.model.eval()
        order = sorted(range(len(rows)), key=lambda i: len(rows[i].ids))
        size = self._settings.micro_batch or self._settings.batch_size
        total = 0.0
        with self._torch.no_grad(), _memory_errors(self._torch):
            for at in range(0, len(order), size):
                total += float(self._summed_loss([rows[i] for i in order[at : at + size]]))
        return total / sum(row.trained for row in rows)

    def state(self) -> dict[str, Any]:
        """Everything needed to go on from here."""
        torch = self._torch
        on_cuda = self._device.type == 'cuda'
        return {
            'done': self.done,
            'weights': {name: weight.detach().cpu() for name, weight in self._weights.items()},
            'optimizer': self._optimizer.state_dict(),
            'chance': torch.get_rng_state(),
            'cuda_chance': torch.cuda.get_rng_state(self._device) if on_cuda else None,
        }

    def resume(self, state: dict[str, Any]) -> None:
        torch = self._torch
        with torch.no_grad():
            for name, weight in self._weights.items():
                weight.copy_(state['weights'][name])
        self._optimizer.load_state_dict(state['optimizer'])
        torch.set_rng_state(state['chance'])
        if state['cuda_chance'] is not None and self._device.type == 'cuda':
            torch.cuda.set_rng_state(state['cuda_chance'], self._device)
        self.done = int(state['done'])

    def _add_adapters(self, model: Any) -> Any:
        if self._settings.lora is None:
            return model
        peft = import_extra('peft', extra='tune', purpose='to train LoRA adapters')
        rank = self._settings.lora
        return peft.get_peft_model(
            model, peft.LoraConfig(r=rank, lora_alpha=2 * rank, target_modules='all-linear', task_type='CAUSAL_LM')
        )

    def _plan(self) -> Iterator[tuple[int, list[int]]]:
        """The updates: their number and rows."""
        lengths = [len(row.ids) for row in self._rows]
        number = 0
        for epoch in range(self._settings.epochs):
            for batch in order_batches(lengths, self._settings.batch_size, seed=self._settings.seed, epoch=epoch):
                if number == self._steps:
                    return
                yield number, batch
                number += 1

    def _update(self, batch: Sequence[TokenSequence], number: int) -> tuple[float, int]:
        self.model.train()
        for group in self._optimizer.param_groups:
            group['lr'] = self._rate_at(number)
        tokens = sum(row.trained for row in batch)
        size = self._settings.micro_batch or len(batch)
        total = None
        for at in range(0, len(batch), size):
            loss = self._summed_loss(batch[at : at + size]) / tokens
            loss.backward()
            total = loss.detach() if total is None else total + loss.detach()
        self._torch.nn.utils.clip_grad_norm_(self._weights.values(), _LARGEST_GRADIENT)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        mean = float(total) if total is not None else math.nan
        if not math.isfinite(mean):
            what = f'the loss is not a number after {count_noun(number + 1, "update")}.'
            raise ModelError(f'{what} Try a lower learning rate than {self._settings.rate:g}.')
        return mean, sum(len(row.ids) for row in batch)

    def _rate_at(self, number: int) -> float:
        """Linear warm-up, then linear decay to zero."""
        warm = max(1, round(_WARM_UP * self._steps))
        if number < warm:
            return self._settings.rate * (number + 1) / warm
        return self._settings.rate * (self._steps - number) / max(1, self._steps - warm)

    def _summed_loss(self, batch: Sequence[TokenSequence]) -> Any:
        torch = self._torch
        ids, labels, mask = self._tensors(batch)
        inputs: dict[str, Any] = {'input_ids': ids, 'attention_mask': mask, 'use_cache': False}
        if self._takes_positions and self._pads_left:
            inputs['position_ids'] = (mask.cumsum(1) - 1).clamp(min=0)
        wanted = (labels[:, 1:] != IGNORED).any(0).nonzero().flatten()
        if self._selects_logits:
            inputs['logits_to_keep'] = wanted
        with self._autocast():
            logits = self.model(**inputs).logits
        if not self._selects_logits:
            logits = logits[:, wanted]
        targets = labels[:, wanted + 1]
        return torch.nn.functional.cross_entropy(
            logits.flatten(0, 1).float(), targets.flatten(), ignore_index=IGNORED, reduction='sum'
        )

    def _tensors(self, batch: Sequence[TokenSequence]) -> tuple[Any, Any, Any]:
        """Ids, labels and attention mask. Padding goes in front where it may, so that answers stand together."""
        torch = self._torch
        longest = max(len(row.ids) for row in batch)
        shape = (len(batch), longest)
        ids = torch.full(shape, self._pad)
        labels = torch.full(shape, IGNORED)
        mask = torch.zeros(shape, dtype=torch.long)
        for i, row in enumerate(batch):
            place = slice(longest - len(row.ids), None) if self._pads_left else slice(0, len(row.ids))
            ids[i, place] = torch.tensor(row.ids)
            labels[i, place] = torch.tensor(row.labels)
            mask[i, place] = 1
        return tuple(tensor.to(self._device, non_blocking=True) for tensor in (ids, labels, mask))

    def _autocast(self) -> AbstractContextManager[Any]:
        if self._device.type != 'cuda':
            return nullcontext()
        context: AbstractContextManager[Any] = self._torch.autocast('cuda', self._torch.bfloat16)
        return context

    def save_model(self, folder: Path, *, dtype: str | None) -> None:
        """Write the model into a folder: merged with its adapters, in the dtype of its files."""
        model = self.model
        with no_progress_bar(import_hf_package('transformers')):
            if self._settings.lora is not None:
                model.save_pretrained(folder / 'adapter')
                model = model.merge_and_unload()
            if dtype is not None and hasattr(self._torch, dtype):
                model = model.to(getattr(self._torch, dtype))
            model.config.use_cache = True
            model.save_pretrained(folder)


@contextmanager
def _memory_errors(torch: Any) -> Iterator[None]:
    try:
        yield
    except torch.OutOfMemoryError as error:
        remedy = 'Use a smaller --micro-batch, --gradient-checkpointing or --lora 16.'
        raise ModelError(f'the device is out of memory: {str(error).splitlines()[0]} {remedy}') from error
