"""The settings of a tuning, checked together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from rolecall.checking import OptionReader
from rolecall.errors import did_you_mean
from rolecall.models.transformers.entry import DEVICE
from rolecall.models.transformers.weights import DTYPES

_LORA_RATE, _FULL_RATE = 2e-4, 2e-5
_NOT_THE_RESULT = ('save_every', 'device', 'micro_batch')
"""Settings that may change when a tuning is resumed."""


@dataclass(frozen=True, slots=True)
class TuneSettings:
    """How a model is tuned.

    >>> TuneSettings.read({'lora': 16}).rate, TuneSettings.read({}).rate
    (0.0002, 2e-05)
    """

    lora: int | None = None
    """The rank of the LoRA adapters; None trains all weights."""
    epochs: int = 3
    max_steps: int | None = None
    batch_size: int = 8
    """Rows in each update."""
    micro_batch: int | None = None
    """Rows in each pass through the model; None: the whole batch at once."""
    learning_rate: float | None = None
    """None: 2e-4 for LoRA, 2e-5 for all weights."""
    held_out: float = 0.1
    """The share of rows (below 1) or their number that only measures the loss."""
    max_seq_len: int | None = None
    """Longer rows are left out; None: the model's own limit."""
    seed: int = 0
    save_every: int = 100
    """Updates between two checkpoints."""
    gradient_checkpointing: bool = False
    device: str | None = None
    dtype: str | None = None

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> TuneSettings:
        """Check options by name; all problems are raised together."""
        reader = OptionReader(options)
        names = [setting.name for setting in fields(cls)]
        for name in options:
            if name not in names:
                reader.refuse(str(name), 'unknown option.', did_you_mean(name, names))
        values: dict[str, Any] = {
            'lora': reader.whole('lora', least=1),
            'max_steps': reader.whole('max_steps', least=1),
            'micro_batch': reader.whole('micro_batch', least=1),
            'learning_rate': reader.number('learning_rate', least=0, most=1),
            'held_out': reader.number('held_out', least=0),
            'max_seq_len': reader.whole('max_seq_len', least=2),
            'seed': reader.whole('seed', least=0),
            'gradient_checkpointing': reader.flag('gradient_checkpointing'),
            'device': reader.text('device'),
            'dtype': reader.one_of('dtype', DTYPES),
            **{name: reader.whole(name, least=1) for name in ('epochs', 'batch_size', 'save_every')},
        }
        if values['learning_rate'] == 0:
            reader.refuse('learning_rate', 'expected a number above 0, got 0.')
        if values['dtype'] == 'float16' and values['lora'] is None:
            reader.refuse('dtype', 'float16 is too narrow to train all weights.', 'Use bfloat16 or float32, or LoRA.')
        if values['device'] is not None and not DEVICE.fullmatch(values['device']):
            reader.refuse('device', f'unknown device {values["device"]!r}.', "Use 'cpu', 'cuda' or 'cuda:1'.")
        reader.raise_problems()
        return cls(**{name: value for name, value in values.items() if value is not None})

    @property
    def rate(self) -> float:
        """The highest learning rate."""
        if self.learning_rate is not None:
            return self.learning_rate
        return _FULL_RATE if self.lora is None else _LORA_RATE

    @property
    def deciding(self) -> dict[str, Any]:
        """The settings that decide the result."""
        return {name: value for name, value in asdict(self).items() if name not in _NOT_THE_RESULT}
