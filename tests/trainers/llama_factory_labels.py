"""What LLaMA-Factory makes of a training file, printed as JSON: run by a Python that has it.

python llama_factory_labels.py MODEL FOLDER DATASET TEMPLATE
"""

from __future__ import annotations

import json
import os
import sys

os.environ['DISABLE_VERSION_CHECK'] = '1'

from llamafactory.data import get_dataset, get_template_and_fix_tokenizer
from llamafactory.hparams import DataArguments, ModelArguments
from transformers import AutoTokenizer, Seq2SeqTrainingArguments

model, folder, dataset, template_name = sys.argv[1:5]
tokenizer = AutoTokenizer.from_pretrained(model)
data_args = DataArguments(
    dataset=dataset,
    dataset_dir=folder,
    template=template_name,
    cutoff_len=4096,
    mask_history=True,
    overwrite_cache=True,
)
template = get_template_and_fix_tokenizer(tokenizer, data_args)
training_args = Seq2SeqTrainingArguments(output_dir=os.path.join(folder, 'out'), report_to=[], use_cpu=True)
found = get_dataset(template, ModelArguments(model_name_or_path=model), data_args, training_args, 'sft', tokenizer)
lines = []
for row in found['train_dataset']:
    at = [i for i, label in enumerate(row['labels']) if label != -100]
    ids = row['input_ids']
    lines.append(
        [tokenizer.decode(ids[: at[0]]), tokenizer.decode(ids[at[0] : at[-1] + 1]), len(at) == at[-1] + 1 - at[0]]
    )
print('LABELS ' + json.dumps(lines))
