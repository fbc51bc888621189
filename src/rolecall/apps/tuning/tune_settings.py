"""The settings of a tuning, checked together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from rolecall.checking import OptionReader, on_command_line
from rolecall.errors import did_you_mean

_LORA_RATE, _FULL_RATE = 2e-4, 2e-5
_NOT_THE_RESULT = ('save_every', 'device', 'micro_batch')
"""Settings that may change when a tuning is resumed."""


def _option(text: str, metavar: str | None = 'N', default: Any = None) -> Any:
    whole: dict[str, Any] = {'type': int} if metavar in ('N', 'RANK') else {}  # `read` says what is wrong with a number
    return field(default=default, metadata=on_command_line(text, metavar, **whole))


@dataclass(frozen=True, slots=True)
class TuneSettings:
    """How a model is tuned.

    >>> TuneSettings.read({'lora': 16}).rate, TuneSettings.read({}).rate
    (0.0002, 2e-05)
    """

    lora: int | None = _option('train LoRA adapters of this rank, not all weights', 'RANK')
    epochs: int = _option('passes over the rows (default: 3)', default=3)
    max_steps: int | None = _option('stop after N updates')
    batch_size: int = _option('rows in each update (default: 8)', default=8)
    micro_batch: int | None = _option('rows at once, if a batch needs too much memory')
    learning_rate: float | None = _option('default: 2e-4 with --lora, 2e-5 for all weights', 'X')
    held_out: float = _option('share (or number) of rows that measure the loss (default: 0.1)', 'X', default=0.1)
    max_seq_len: int | None = _option("leave out longer rows (default: the model's limit)")
    seed: int = _option('for the order of rows and new weights (default: 0)', default=0)
    save_every: int = _option('updates between checkpoints (default: 100)', default=100)
    gradient_checkpointing: bool = _option('less memory, about a third slower', None, default=False)
    device: str | None = _option("'cpu', 'cuda' or 'cuda:1' (default: CUDA if there is one)", 'NAME')
    dtype: str | None = _option('dtype of the weights (default: bfloat16 files stay so, see docs)', 'NAME')

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> TuneSettings:
        """Check options by name; all problems are raised together."""
        from rolecall.models.transformers.entry import DEVICE
        from rolecall.models.transformers.weights import DTYPES

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
