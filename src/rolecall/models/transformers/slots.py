"""Keys and values in fixed places: a prefix that all rows share, kept once, and a slot of columns for each row.

The model runs without a cache of its own. An attention function, registered through Transformers' public interface,
writes each layer's new keys and values into the slots and attends over the shared prefix and the row's own columns.
Because nothing moves or grows, a decoding step can be captured in a CUDA graph and rows can be replaced as answers end.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rolecall.models.transformers.fused_layers import fused_layers, load_kernels
from rolecall.models.transformers.weights import LoadedModel, import_hf_package

_NAME = 'rolecall_slots'
_REFUSED = ('head_mask', 'position_bias')
"""Options of an attention layer that this attention does not know."""
_PROBE = 24
_current = threading.local()


class UnsupportedAttentionError(Exception):
    """A layer asks for something that attention over slots does not do."""


@dataclass(frozen=True, slots=True, eq=False)
class _Form:
    """How one layer attends."""

    scale: float
    window: int | None = None
    """How many tokens back a token sees, itself included; None: all."""
    softcap: float | None = None
    sinks: Any = None
    """A logit for each head that takes part in the softmax and weighs no value."""

    @property
    def is_plain(self) -> bool:
        return self.window is None and self.softcap is None and self.sinks is None

    def in_window(self, query_places: Any, key_places: Any) -> Any:
        """Whether keys are near enough to be seen."""
        apart = query_places - key_places
        return apart < self.window if self.window is not None else apart == apart

    def cap(self, scores: Any) -> Any:
        """Scores in single precision, scaled and capped."""
        scores = scores.float() * self.scale
        return scores if self.softcap is None else self.softcap * (scores / self.softcap).tanh()

    def softmax(self, scores: Any, dtype: Any) -> Any:
        """Weights over the last dimension of scores by row, key group and head in the group."""
        torch = import_hf_package('torch')
        if self.sinks is None:
            return torch.softmax(scores, -1).to(dtype)
        sinks = self.sinks.float().reshape(1, *scores.shape[1:3], *[1] * (scores.ndim - 3))
        return torch.softmax(torch.cat([scores, sinks.expand(*scores.shape[:-1], 1)], -1), -1)[..., :-1].to(dtype)


@dataclass(frozen=True, slots=True, eq=False)
class Prefix:
    """The keys and values of tokens that all rows begin with: by layer, key groups × tokens × width."""

    layers: tuple[tuple[Any, Any], ...] = ()
    length: int = 0

    def first(self, length: int) -> Prefix:
        """Its first tokens."""
        if length >= self.length:
            return self
        return Prefix(tuple((keys[:, :length], values[:, :length]) for keys, values in self.layers), length)


@dataclass(slots=True, eq=False)
class Slots:
    """The columns of every row, by layer: rows × key groups × columns × width. Tensors are made at the first pass."""

    prefix: Prefix
    rows: int
    columns: int
    keys: list[Any]
    values: list[Any]

    @classmethod
    def empty(cls, prefix: Prefix, *, rows: int, columns: int) -> Slots:
        return cls(prefix, rows, columns, [], [])

    def prefill(self, loaded: LoadedModel, rows: Sequence[int], tokens: Sequence[Sequence[int]]) -> None:
        """Compute the tokens of some rows from their first column on."""
        torch = import_hf_package('torch')
        longest = max(map(len, tokens))
        ids = torch.tensor([[*row, *[loaded.pad_id] * (longest - len(row))] for row in tokens], device=loaded.device)
        places = torch.arange(self.prefix.length, self.prefix.length + longest, device=loaded.device)
        chosen = torch.tensor(rows, device=loaded.device)
        with _attending(loaded, _Filling(self, chosen)):
            loaded.model(input_ids=ids, position_ids=places.expand(len(tokens), -1), use_cache=False, logits_to_keep=1)

    def decode(self, loaded: LoadedModel, token: Any, column: Any) -> Any:
        """The logits after one more token of every row, which goes into the row's given column."""
        with _attending(loaded, _Decoding(self, column)):
            position = (column + self.prefix.length)[:, None]
            return loaded.model(input_ids=token[:, None], position_ids=position, use_cache=False).logits[:, -1]

    def layer(self, number: int, key: Any, value: Any) -> tuple[Any, Any]:
        """The tensors of a layer, made to hold keys and values like these."""
        while len(self.keys) <= number:
            for tensors, like in ((self.keys, key), (self.values, value)):
                tensors.append(like.new_zeros((self.rows, like.shape[1], self.columns, like.shape[3])))
        return self.keys[number], self.values[number]


@dataclass(frozen=True, slots=True, eq=False)
class _Filling:
    """Several tokens a row: written to the first columns of some rows, each seeing the prefix and what precedes it."""

    slots: Slots
    rows: Any

    def attend(self, layer: int, query: Any, key: Any, value: Any, form: _Form) -> Any:
        keys, values = self.slots.layer(layer, key, value)
        width = key.shape[2]
        keys[self.rows, :, :width] = key
        values[self.rows, :, :width] = value
        return _attend_causally(query, key, value, self.slots.prefix, layer, form)


@dataclass(frozen=True, slots=True, eq=False)
class _Decoding:
    """One token for every row: written to the row's column, seeing the prefix and the columns up to its own."""

    slots: Slots
    column: Any

    def attend(self, layer: int, query: Any, key: Any, value: Any, form: _Form) -> Any:
        torch = import_hf_package('torch')
        keys, values = self.slots.layer(layer, key, value)
        if query.is_cuda and form.is_plain and (kernels := load_kernels()) is not None:
            prefix = self.slots.prefix.layers[layer] if self.slots.prefix.length else None
            return kernels.attend(query, key, value, keys, values, self.column, prefix, form.scale)
        every = torch.arange(query.shape[0], device=query.device)
        keys[every, :, self.column] = key[:, :, 0]
        values[every, :, self.column] = value[:, :, 0]
        rows, heads, _, width = query.shape
        groups = key.shape[1]
        grouped = query.reshape(rows, groups, heads // groups, width)
        columns, here = torch.arange(keys.shape[2], device=query.device), self.column[:, None]
        visible = (columns <= here) & form.in_window(here, columns)
        own = form.cap(torch.matmul(grouped, keys.transpose(2, 3)))
        own = own.masked_fill(~visible[:, None, None, :], float('-inf'))
        if not self.slots.prefix.length:
            weights = form.softmax(own, query.dtype)
            return torch.matmul(weights, values).reshape(rows, heads, 1, -1).transpose(1, 2)
        before, contents = self.slots.prefix.layers[layer]
        split = before.shape[1]
        flat = grouped.transpose(0, 1).reshape(groups, -1, width)
        shared = form.cap(torch.matmul(flat, before.transpose(1, 2)))
        shared = shared.reshape(groups, rows, heads // groups, -1).transpose(0, 1)
        if form.window is not None:
            near = form.in_window(here + split, torch.arange(split, device=query.device))
            shared = shared.masked_fill(~near[:, None, None, :], float('-inf'))
        weights = form.softmax(torch.cat([shared, own], -1), query.dtype)
        first = weights[..., :split].transpose(0, 1).reshape(groups, -1, split)
        mixed = torch.matmul(first, contents).reshape(groups, rows, heads // groups, -1).transpose(0, 1)
        mixed = mixed + torch.matmul(weights[..., split:], values)
        return mixed.reshape(rows, heads, 1, -1).transpose(1, 2)


@dataclass(frozen=True, slots=True, eq=False)
class _Reading:
    """The tokens of one row, whose keys and values are kept as a prefix."""

    layers: list[tuple[Any, Any]]
    before: Prefix

    def attend(self, layer: int, query: Any, key: Any, value: Any, form: _Form) -> Any:
        torch = import_hf_package('torch')
        pair = (key[0].contiguous(), value[0].contiguous())
        if self.before.length:
            keys, values = self.before.layers[layer]
            pair = (torch.cat([keys, key[0]], 1), torch.cat([values, value[0]], 1))
        self.layers.append(pair)
        return _attend_causally(query, key, value, self.before, layer, form)


@dataclass(frozen=True, slots=True, eq=False)
class _Packed:
    """Rows that each hold several continuations, separated by a mask: rows × 1 × tokens × tokens."""

    prefix: Prefix
    mask: Any
    places: Any
    """The position of each token: rows × tokens."""

    def attend(self, layer: int, query: Any, key: Any, value: Any, form: _Form) -> Any:
        torch = import_hf_package('torch')
        mask = self.mask
        if form.window is not None:
            mask = mask & form.in_window(self.places[:, None, :, None], self.places[:, None, None, :])
        if self.prefix.length:
            key, value = _after_prefix(key, value, self.prefix, layer)
            before = torch.arange(self.prefix.length, device=mask.device)
            open_ = form.in_window(self.places[:, None, :, None], before).expand(*mask.shape[:3], -1)
            mask = torch.cat([open_, mask], -1)
        return _weigh(query, key, value, mask, form)


def compute_prefix(loaded: LoadedModel, tokens: Sequence[int]) -> Prefix:
    """The keys and values of some tokens."""
    return extend_prefix(loaded, tokens, Prefix(), logits_to_keep=1)[0]


def extend_prefix(loaded: LoadedModel, tokens: Sequence[int], before: Prefix, **options: Any) -> tuple[Prefix, Any]:
    """A prefix with more tokens behind it, and the logits of those."""
    torch = import_hf_package('torch')
    layers: list[tuple[Any, Any]] = []
    places = torch.arange(before.length, before.length + len(tokens), device=loaded.device)
    with _attending(loaded, _Reading(layers, before)):
        ids = torch.tensor([list(tokens)], device=loaded.device)
        logits = loaded.model(input_ids=ids, position_ids=places[None], use_cache=False, **options).logits
    return Prefix(tuple(layers), before.length + len(tokens)), logits


def attend_packed(loaded: LoadedModel, prefix: Prefix, ids: Any, positions: Any, mask: Any) -> Any:
    """The logits of packed rows after a prefix."""
    with _attending(loaded, _Packed(prefix, mask, positions)):
        return loaded.model(input_ids=ids, position_ids=positions, use_cache=False).logits


def find_obstacle(loaded: LoadedModel) -> str | None:
    """Why this model cannot run over slots; None if it can. A short prompt is computed both ways and compared."""
    torch = import_hf_package('torch')
    if not loaded.shares or not loaded.takes_positions:
        return 'its architecture does not allow a prefix to be computed on its own'
    vocabulary = loaded.model.get_input_embeddings().weight.shape[0]
    tokens = [number * 7919 % vocabulary for number in range(1, _PROBE + 1)]
    half = _PROBE // 2
    try:
        with torch.inference_mode():
            slots = Slots.empty(compute_prefix(loaded, tokens[:half]), rows=1, columns=_PROBE)
            slots.prefill(loaded, [0], [tokens[half:-1]])
            column = torch.tensor([_PROBE - half - 1], device=loaded.device)
            logits = slots.decode(loaded, torch.tensor([tokens[-1]], device=loaded.device), column)
            ids = torch.tensor([tokens], device=loaded.device)
            expected = loaded.model(input_ids=ids, use_cache=False).logits[:, -1]
    except UnsupportedAttentionError as error:
        return str(error)
    except Exception as error:  # foreign code: whatever it raises, the model has another way
        return f'{type(error).__name__}: {error}'
    if len(slots.keys) != loaded.model.config.get_text_config().num_hidden_layers:
        return 'not all of its layers use the public attention interface'
    apart = (logits.float() - expected.float()).abs().max().item()
    tolerance = {torch.float32: 1e-3, torch.float64: 1e-6}.get(logits.dtype, 0.05) * expected.float().abs().max().item()
    return None if apart <= tolerance else f'its results differ by {apart:.2g} from those of its own attention'


@contextmanager
def _attending(loaded: LoadedModel, state: Any) -> Iterator[None]:
    """Run the model's layers with attention over this state."""
    _register()
    before = loaded.model.config._attn_implementation
    loaded.model.set_attn_implementation(_NAME)
    _current.state = state
    try:
        with fused_layers(loaded.model):
            yield
    finally:
        _current.state = None
        loaded.model.set_attn_implementation(before)


def _register() -> None:
    transformers = import_hf_package('transformers')
    if _NAME not in transformers.AttentionInterface().valid_keys():
        transformers.AttentionInterface.register(_NAME, _attention)
        transformers.AttentionMaskInterface.register(_NAME, _no_mask)


def _no_mask(*_: Any, **__: Any) -> None:
    """The state knows what each token sees."""


def _attention(
    module: Any, query: Any, key: Any, value: Any, attention_mask: Any, scaling: float | None = None, **options: Any
) -> tuple[Any, None]:
    refused = [name for name in _REFUSED if options.get(name) is not None]
    if refused:
        raise UnsupportedAttentionError(f'its attention uses {", ".join(refused)}')
    form = _Form(
        query.shape[3] ** -0.5 if scaling is None else scaling,
        options.get('sliding_window'),
        options.get('softcap'),
        options.get('s_aux'),
    )
    out = _current.state.attend(module.layer_idx, query, key, value, form)
    return out.contiguous(), None


def _attend_causally(query: Any, key: Any, value: Any, prefix: Prefix, layer: int, form: _Form) -> Any:
    torch = import_hf_package('torch')
    if not prefix.length and form.is_plain:
        return _sdpa(query, key, value, form.scale, None)
    width = query.shape[2]
    if prefix.length:
        key, value = _after_prefix(key, value, prefix, layer)
    places = torch.arange(prefix.length + width, device=query.device)
    here = places[prefix.length :, None]
    return _weigh(query, key, value, (places <= here) & form.in_window(here, places), form)


def _after_prefix(key: Any, value: Any, prefix: Prefix, layer: int) -> tuple[Any, Any]:
    torch = import_hf_package('torch')
    before, contents = (tensor.expand(key.shape[0], *tensor.shape) for tensor in prefix.layers[layer])
    return torch.cat([before, key], 2), torch.cat([contents, value], 2)


def _weigh(query: Any, key: Any, value: Any, mask: Any, form: _Form) -> Any:
    """Attention under a mask: torch's own where a layer has neither a cap nor sinks."""
    torch = import_hf_package('torch')
    if form.softcap is None and form.sinks is None:
        return _sdpa(query, key, value, form.scale, mask)
    rows, heads, tokens, width = query.shape
    groups = key.shape[1]
    grouped = query.reshape(rows, groups, heads // groups, tokens, width)
    scores = form.cap(torch.matmul(grouped, key[:, :, None].transpose(3, 4)))
    visible = mask if mask.ndim == 2 else mask[:, :, None]
    weights = form.softmax(scores.masked_fill(~visible, float('-inf')), query.dtype)
    return torch.matmul(weights, value[:, :, None]).reshape(rows, heads, tokens, -1).transpose(1, 2)


def _sdpa(query: Any, key: Any, value: Any, scale: float | None, mask: Any) -> Any:
    """Torch's attention; causal without a mask. Key groups are repeated only where a mask rules out other kernels."""
    torch = import_hf_package('torch')
    groups = query.shape[1] // key.shape[1]
    if mask is not None and groups > 1:
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    out = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, is_causal=mask is None, scale=scale,
        enable_gqa=mask is None and groups > 1,
    )  # fmt: skip
    return out.transpose(1, 2)
