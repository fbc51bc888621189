"""The keys of model entries: those each kind of model reads, and those of other systems that mean nothing here."""

from __future__ import annotations

COMMON_KEYS = (
    *('type', 'abbr', 'path', 'meta_template', 'chat_template', 'bos_token', 'eos_token', 'max_out_len', 'max_seq_len'),
    *('tokenizer', 'tokenizer_path', 'pred_postprocessor', 'price', 'lint', 'summarizer_abbr'),
    *('concurrency', 'max_workers', 'batch_size', 'query_per_second', 'request_rate', 'timeout', 'retry', 'workers'),
)
"""Read for every model, whatever its type."""

_SERVER_KEYS = (
    *('model', 'model_name', 'key', 'api_key', 'openai_api_base', 'base_url', 'url', 'headers', 'extra_headers'),
    *('proxy', 'stream', 'generation_kwargs', 'extra_body', 'max_reply_bytes', 'max_media_bytes', 'run_cfg'),
    *('verify', 'ca_bundle'),
)
OPENAI_PARAMETERS = (
    *('temperature', 'top_p', 'top_k', 'min_p', 'seed', 'stop', 'n', 'logprobs', 'top_logprobs', 'reasoning_effort'),
    *('frequency_penalty', 'presence_penalty', 'repetition_penalty', 'tools', 'tool_choice', 'response_format'),
)
OPENAI_KEYS = (
    *(*COMMON_KEYS, *_SERVER_KEYS, *OPENAI_PARAMETERS),
    *('host_ip', 'host_port', 'enable_ssl', 'endpoint', 'score', 'org', 'openai_proxy_url', 'openai_extra_kwargs'),
    *('max_completion_tokens', 'max_tokens_key', 'think_tag', 'media', 'inline_files', 'prefill', 'system'),
    *('mode', 'verbose', 'rpm_verbose', 'stream_options'),
)
ANTHROPIC_PARAMETERS = ('temperature', 'top_p', 'top_k', 'thinking', 'tools', 'tool_choice')
ANTHROPIC_KEYS = (
    *(*COMMON_KEYS, *_SERVER_KEYS, *ANTHROPIC_PARAMETERS),
    *('anthropic_version', 'claude_extra_kwargs', 'prompt_cache'),
)
_LOCAL_KEYS = ('min_out_len', 'generation_kwargs', 'stop_words')
LLAMA_KEYS = (*COMMON_KEYS, *_LOCAL_KEYS, 'n_threads', 'parallel', 'seed', 'cache_type')
TRANSFORMERS_KEYS = (
    *(*COMMON_KEYS, *_LOCAL_KEYS),
    *('model_kwargs', 'tokenizer_kwargs', 'end_str', 'device', 'dtype', 'trust_remote_code', 'peft_path'),
)
FUNCTION_KEYS = (*COMMON_KEYS, 'function', 'score', 'chat', 'revision')

FOREIGN_KEYS = frozenset(
    (
        *('run_cfg', 'attr', 'mode', 'verbose', 'rpm_verbose', 'engine_config'),
        *('batch_padding', 'drop_middle', 'extract_pred_after_decode', 'use_fastchat_template', 'fastchat_template'),
        *('launcher', 'ip', 'port', 'returns_tool_calls', 'traffic_cfg', 'backend', 'lora_path', 'max_num_workers'),
        *('sync_rank', 'is_synthetic', 'extra_run_cfg', 'infer_kwargs', 'api_url', 'think_pred_postprocess'),
        *('warmup_size', 'trust_env', 'mixed_precision', 'return_generate_kwargs'),
    )
)
"""Keys that entries of OpenCompass and AISBench carry. They configure those programs and have no effect here."""
