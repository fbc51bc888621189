"""Models behind servers, which are shown, counted and exported, but not called."""

from .dataset_parts import ROUND, TEXT, dataset

models = [
    dict(abbr='gpt', type='OpenAI', path='gpt-4o-mini', max_out_len=64, temperature=0, key='k'),
    dict(abbr='completions', type='OpenAICompletions', path='toy', base_url='http://127.0.0.1:9/v1', key='k', max_out_len=8),
    dict(abbr='claude', type='Anthropic', path='claude-sonnet-4-5', max_out_len=64, key='k'),
    dict(abbr='server', type='OpenAI', path='toy', base_url='http://127.0.0.1:9/v1', key='k', meta_template='api-no-system', tokenizer_path='tokenizer', max_seq_len=200),
]
datasets = [
    dataset('text', TEXT),
    dataset('dialogue', dict(begin=[dict(role='SYSTEM', fallback_role='HUMAN', prompt='S.'), '</E>'], round=ROUND), shots=(0, 1)),
    dataset('samples', TEXT, inferencer=dict(type='GenInferencer', num_return_sequences=2, temperature=0.5)),
]
