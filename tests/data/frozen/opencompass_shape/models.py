from opencompass.models import HuggingFaceCausalLM

_meta_template = dict(
    round=[
        dict(role='HUMAN', begin='<|Human|>: ', end='<eoh>\n'),
        dict(role='BOT', begin='<|Bot|>: ', end='<eob>\n', generate=True),
    ],
)
models = [
    dict(
        type=HuggingFaceCausalLM,
        abbr='local-7b',
        path='models/local-7b',
        tokenizer_path='models/local-7b',
        tokenizer_kwargs=dict(padding_side='left', truncation_side='left'),
        meta_template=_meta_template,
        max_out_len=100,
        max_seq_len=2048,
        batch_size=8,
        run_cfg=dict(num_gpus=1, num_procs=1),
    )
]
