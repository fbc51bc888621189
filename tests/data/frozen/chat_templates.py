"""Chat templates as models ship them: with and without a system role, with conditions, for asking and for weighing."""

from .dataset_parts import ROUND, TEXT, dataset
from .frozen_models import text_model

TEMPLATES = {
    'chatml': "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    '{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}',
    'merged-system': "{% set s = messages[0].content if messages[0].role == 'system' else '' %}{% for m in messages %}"
    "{% if m.role == 'user' %}[INST] {% if loop.index0 <= 1 and s %}<<SYS>>{{ s }}<</SYS>> {% endif %}{{ m.content | trim }} [/INST]"
    "{% elif m.role == 'assistant' %} {{ m.content }}</s>{% endif %}{% endfor %}",
    'strict': "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}"
    '{% endif %}({{ m.role | upper }}) {{ m.content }}{% endfor %}',
}
SYSTEM = dict(role='SYSTEM', fallback_role='HUMAN', prompt='Be brief.')
models = [
    text_model(name, chat_template=source, tokenizer_path='tokenizer', max_seq_len=600) for name, source in TEMPLATES.items()
]
datasets = [
    dataset('text', TEXT),
    dataset('dialogue', dict(round=ROUND)),
    dataset('shots', dict(begin=['</E>'], round=ROUND), shots=(0, 1)),
    dataset('system', dict(begin=[SYSTEM], round=ROUND)),
]
