"""Norms and gated layers in one kernel each compute what the model's own modules compute."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.heavy
torch = pytest.importorskip('torch')
transformers = pytest.importorskip('transformers')

from rolecall.models.transformers import fused_layers as fused  # noqa: E402
from rolecall.models.transformers.fused_layers import fused_layers  # noqa: E402

SIZES: dict[str, Any] = dict(
    hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=4, vocab_size=100, head_dim=12
)


def normalize(states: Any, weight: Any, epsilon: float) -> Any:
    wide = states.float()
    return weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + epsilon)).to(states.dtype)


def gate(opening: Any, content: Any) -> Any:
    return torch.nn.functional.silu(opening) * content


def make(name: str, dtype: Any = torch.bfloat16) -> Any:
    torch.manual_seed(0)
    config, model = {
        'llama': (transformers.LlamaConfig, transformers.LlamaForCausalLM),
        'gemma2': (transformers.Gemma2Config, transformers.Gemma2ForCausalLM),
        'neox': (transformers.GPTNeoXConfig, transformers.GPTNeoXForCausalLM),
    }[name]
    sizes = SIZES if name != 'neox' else {key: value for key, value in SIZES.items() if key != 'head_dim'}
    made = model(config(**sizes)).eval().to('cuda' if torch.cuda.is_available() else 'cpu', dtype)
    for module in made.modules():
        if type(module).__name__.endswith('RMSNorm'):
            torch.nn.init.uniform_(module.weight, 0.5, 1.5)
    return made


def run(model: Any) -> Any:
    ids = torch.arange(1, 41, device=model.device).reshape(2, 20)
    with torch.inference_mode():
        return model(input_ids=ids).logits.float()


@pytest.mark.parametrize(('name', 'count'), [('llama', 2 * 2 + 1 + 2), ('gemma2', 0), ('neox', 0)])
def test_modules_that_compute_something_else_are_left_alone(
    monkeypatch: pytest.MonkeyPatch, name: str, count: int
) -> None:
    if not torch.cuda.is_available():
        monkeypatch.setattr(fused, 'choose_kernels', lambda model: SimpleNamespace(normalize=normalize, gate=gate))
    model = make(name)
    before = run(model)
    with fused_layers(model):
        swapped = [module for module in model.modules() if 'forward' in vars(module)]
        during = run(model)
    assert len(swapped) == count
    assert (before - during).abs().max() <= 0.02 * before.abs().max()
    assert not [module for module in model.modules() if 'forward' in vars(module)]


def test_float32_keeps_its_modules() -> None:
    model = make('llama', torch.float32)
    with fused_layers(model):
        assert not [module for module in model.modules() if 'forward' in vars(module)]


@pytest.mark.skipif(not torch.cuda.is_available(), reason='needs CUDA')
@pytest.mark.parametrize('width', [1, 8, 48, 1000, 2048, 5000])
@pytest.mark.parametrize('dtype', [torch.bfloat16, torch.float16])
def test_kernels_round_as_torch_does(width: int, dtype: Any) -> None:
    from rolecall.models.transformers import kernels

    torch.manual_seed(1)
    states, weight, other = (
        torch.randn(shape, device='cuda', dtype=dtype) for shape in ((7, width), (width,), (7, width))
    )
    torch.testing.assert_close(kernels.normalize(states, weight, 1e-6), normalize(states, weight, 1e-6))
    torch.testing.assert_close(kernels.gate(states, other), gate(states, other))
