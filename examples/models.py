"""The models that the examples are shown for. Nothing is loaded or called: only how each is addressed matters."""

models = [
    dict(
        abbr='qwen-chatml',
        type='HuggingFaceCausalLM',
        path='Qwen/Qwen2.5-0.5B-Instruct',
        meta_template='chatml',
        max_seq_len=2048,
        max_out_len=512,
    ),
    dict(
        abbr='llama2-chat',
        type='HuggingFaceCausalLM',
        path='meta-llama/Llama-2-7b-chat-hf',
        meta_template='llama2',
        max_seq_len=2048,
        max_out_len=512,
    ),
    dict(abbr='base', type='HuggingFaceBaseModel', path='none', max_seq_len=2048, max_out_len=512),
    dict(abbr='gpt', type='OpenAI', path='gpt-4o-mini', max_out_len=512, temperature=0),
]
