"""A model with a price and a tokenizer at hand: what a run will cost."""

from .dataset_parts import TEXT, dataset

models = [dict(abbr='priced', type='OpenAI', path='gpt-4o-mini', tokenizer_path='tokenizer', max_out_len=64, key='k')]
datasets = [dataset('text', TEXT), dataset('shots', '</E>' + TEXT, shots=(0, 1))]
