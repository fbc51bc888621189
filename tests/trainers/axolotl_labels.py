"""What axolotl's chat_template strategy makes of a training file, printed as JSON: run by a Python that has it.

python axolotl_labels.py MODEL FILE
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from axolotl.prompt_strategies.chat_template import ChatTemplatePrompter, ChatTemplateStrategy
from transformers import AutoTokenizer

model, file = sys.argv[1:3]
tokenizer = AutoTokenizer.from_pretrained(model)
prompter = ChatTemplatePrompter(
    tokenizer,
    chat_template=tokenizer.chat_template,
    message_property_mappings={name: name for name in ('role', 'content', 'tool_calls')},
    field_messages='messages',
    message_field_training='weight',
)
strategy = ChatTemplateStrategy(
    prompter,
    tokenizer=tokenizer,
    train_on_inputs=False,
    sequence_len=4096,
    roles_to_train=['assistant'],
    train_on_eos='turn',
)
lines = []
for line in Path(file).read_text(encoding='utf-8').splitlines():
    row = strategy.tokenize_prompt(json.loads(line))
    at = [i for i, label in enumerate(row['labels']) if label != -100]
    ids = row['input_ids']
    lines.append(
        [tokenizer.decode(ids[: at[0]]), tokenizer.decode(ids[at[0] : at[-1] + 1]), len(at) == at[-1] + 1 - at[0]]
    )
print('LABELS ' + json.dumps(lines))
