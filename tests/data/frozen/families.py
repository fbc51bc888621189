"""One dialogue with a system speech and examples in the format of every family."""

from .dataset_parts import ROUND, dataset
from .frozen_models import text_model

FAMILIES = (
    'alpaca', 'api', 'api-no-system', 'baichuan2', 'chatml', 'command-r', 'deepseek', 'falcon', 'gemma', 'glm4', 'internlm2',
    'llama2', 'llama3', 'mistral', 'moss', 'openchat', 'phi3', 'phi4', 'qwen', 'starling', 'tulu', 'tulu3', 'vicuna', 'yi',
    'zephyr',
)  # fmt: skip
SYSTEM = dict(role='SYSTEM', fallback_role='HUMAN', prompt='Be brief.')
models = [text_model(family, meta_template=family) for family in FAMILIES]
datasets = [dataset('dialogue', dict(begin=[SYSTEM, '</E>'], round=ROUND, end='Go on.'), shots=(0, 3))]
