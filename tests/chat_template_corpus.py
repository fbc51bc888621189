"""Chat templates in the manner of well-known families, and message lists to try them with."""

from __future__ import annotations

from typing import Any, NamedTuple


class Family(NamedTuple):
    source: str
    bos: str = ''
    eos: str = ''


CHATML = Family("""
{%- for message in messages -%}
    {{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<|im_start|>assistant\\n' -}}
{%- endif -%}
""")

CHATML_WITH_DEFAULT = Family("""
{%- for message in messages %}
    {%- if loop.first and message.role != 'system' %}
        {{- '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}
    {%- endif %}
    {{- '<|im_start|>' ~ message.role ~ '\\n' ~ message.content ~ '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}
""")

LLAMA2 = Family(
    """
{%- set ns = namespace(system='', turns=messages) %}
{%- if messages and messages[0]['role'] == 'system' %}
    {%- set ns.system = '<<SYS>>\\n' + messages[0]['content'] + '\\n<</SYS>>\\n\\n' %}
    {%- set ns.turns = messages[1:] %}
{%- endif %}
{%- for message in ns.turns %}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
    {%- endif %}
    {%- if message['role'] == 'user' %}
        {{- bos_token + '[INST] ' + (ns.system + message['content'] if loop.first else message['content']).strip() + ' [/INST]' }}
    {%- else %}
        {{- ' ' + message['content'].strip() + ' ' + eos_token }}
    {%- endif %}
{%- endfor %}
""",
    bos='<s>',
    eos='</s>',
)

LLAMA3 = Family(
    """
{{- bos_token }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
""",
    bos='<|begin_of_text|>',
    eos='<|eot_id|>',
)

LLAMA31 = Family(
    """
{{- bos_token }}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none %}
    {{- "Environment: ipython\\n" }}
{%- endif %}
{{- "Today Date: " + date_string + "\\n\\n" }}
{%- if tools is not none %}
    {{- "You can call these functions:\\n\\n" }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("This model only supports single tool-calls at once!") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}
        {{- '{"name": "' + tool_call.name + '", ' }}
        {{- '"parameters": ' }}
        {{- tool_call.arguments | tojson }}
        {{- "}" }}
        {{- "<|eot_id|>" }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
""",
    bos='<|begin_of_text|>',
    eos='<|eot_id|>',
)

GEMMA = Family(
    """
{{- bos_token -}}
{%- if messages[0]['role'] == 'system' -%}
    {{ raise_exception('System role not supported') }}
{%- endif -%}
{%- for message in messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
    {%- endif -%}
    {%- set role = 'model' if message['role'] == 'assistant' else message['role'] -%}
    {{- '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<start_of_turn>model\\n' }}{%- endif -%}
""",
    bos='<bos>',
    eos='<eos>',
)

MISTRAL = Family(
    """
{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS] [" }}
            {%- for tool in tools %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.function.items() if key != "return" %}
                    {%- if val is string %}
                        {{- '"' + key + '": "' + val + '"' }}
                    {%- else %}
                        {{- '"' + key + '": ' + val|tojson }}
                    {%- endif %}
                    {%- if not loop.last %}{{- ", " }}{%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" }}{%- endif %}
            {%- endfor %}
            {{- "[/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[TOOL_CALLS] [" }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function|tojson %}
            {{- out[:-1] }}
            {{- ', "id": "' + tool_call.id + '"}' }}
            {%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" + eos_token }}{%- endif %}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token }}
    {%- elif message["role"] == "tool" %}
        {{- '[TOOL_RESULTS] {"content": ' + message.content|string + ', "call_id": "' + message.tool_call_id + '"}[/TOOL_RESULTS]' }}
    {%- else %}
        {{- raise_exception("Only user and assistant roles are supported, with an optional system message!") }}
    {%- endif %}
{%- endfor %}
""",
    bos='<s>',
    eos='</s>',
)

QWEN_TOOLS = Family("""
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0]['role'] == 'system' %}
        {{- messages[0]['content'] }}
    {%- else %}
        {{- 'You are Qwen, created by Alibaba Cloud. You are a helpful assistant.' }}
    {%- endif %}
    {{- "\\n\\n# Tools\\n\\nSignatures within <tools></tools> XML tags:\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools>\\n\\nAnswer with <tool_call>\\n{\\"name\\": <name>, \\"arguments\\": <object>}\\n</tool_call><|im_end|>\\n" }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content %}
            {{- '\\n' + message.content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}
                {%- set tool_call = tool_call.function %}
            {%- endif %}
            {{- '\\n<tool_call>\\n{"name": "' }}
            {{- tool_call.name }}
            {{- '", "arguments": ' }}
            {{- tool_call.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' }}
        {{- message.content }}
        {{- '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
""")

QWEN_THINKING = Family("""
{%- set ns = namespace(searching=true, last_query=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.searching and message.role == 'user' and not (message.content is string and message.content.startswith('<tool_response>')) %}
        {%- set ns.searching = false %}
        {%- set ns.last_query = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if message.role == 'assistant' %}
        {%- set thought = '' %}
        {%- if '</think>' in content %}
            {%- set thought = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query and (loop.last or thought) %}
            {{- '<|im_start|>assistant\\n<think>\\n' + thought.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>assistant\\n' + content }}
        {%- endif %}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + content }}
    {%- endif %}
    {{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
""")

DEEPSEEK = Family(
    """
{%- if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}
{%- set ns = namespace(system_prompt='', after_tool=false) %}
{%- for message in messages %}
    {%- if message['role'] == 'system' %}{% set ns.system_prompt = message['content'] %}{% endif %}
{%- endfor %}
{{- bos_token }}{{ ns.system_prompt }}
{%- for message in messages %}
    {%- if message['role'] == 'user' %}
        {%- set ns.after_tool = false -%}
        {{- '<｜User｜>' + message['content'] }}
    {%- elif message['role'] == 'assistant' and message['content'] is not none %}
        {%- set content = message['content'] %}
        {%- if '</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif %}
        {{- '<｜Assistant｜>' + content + '<｜end▁of▁sentence｜>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt and not ns.after_tool %}{{ '<｜Assistant｜>' }}{% endif %}
""",
    bos='<｜begin▁of▁sentence｜>',
    eos='<｜end▁of▁sentence｜>',
)

PHI3 = Family(
    """
{%- for message in messages %}
    {%- if message['role'] in ['system', 'user', 'assistant'] and message['content'] %}
        {{- '<|' + message['role'] + '|>\\n' + message['content'] + '<|end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% else %}{{ eos_token }}{% endif %}
""",
    bos='<s>',
    eos='<|endoftext|>',
)

ZEPHYR = Family(
    """\
{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>\\n' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>\\n' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>\\n'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}""",
    bos='<s>',
    eos='</s>',
)

VICUNA = Family(
    """
{%- if messages[0]['role'] == 'system' %}
    {%- set system = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system = 'A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, detailed, and polite answers to the user\\'s questions.' %}
{%- endif %}
{{- bos_token + system + ' ' }}
{%- for message in messages %}
    {%- if message['role'] == 'user' %}
        {{- 'USER: ' + message['content'] | trim + ' ' }}
    {%- elif message['role'] == 'assistant' %}
        {{- 'ASSISTANT: ' + message['content'] | trim + eos_token }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- 'ASSISTANT:' }}{% endif %}
""",
    bos='<s>',
    eos='</s>',
)

PARTS = Family("""
{%- macro said(content) %}
    {%- if content is string %}{{ content }}
    {%- elif content is iterable and content is not mapping %}
        {%- for part in content %}
            {%- if part.type == 'image' %}{{ '<|image|>' }}{% continue %}{% endif %}
            {%- if 'text' in part %}{{ part['text'] }}{% endif %}
        {%- endfor %}
    {%- endif %}
{%- endmacro %}
{%- for message in messages %}
    {{- '[' ~ message.role|upper ~ '] ' }}{{ said(message.content) }}{{ '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}[ASSISTANT] {% endif %}
""")

GENERATION = Family("""
{%- for message in messages %}
<|{{ message.role }}|>
{% if message.role == 'assistant' %}
{% generation %}{% set shown = message.content %}{{ shown }}<|end|>
{% endgeneration %}
{% else %}
{{ message.content }}<|end|>
{% endif %}
{% endfor %}
{{ shown }}
{%- if add_generation_prompt %}
<|assistant|>
{% endif %}
""")

ODDITIES = Family(
    """
{#- comments go -#}
{% set roles = messages|map(attribute='role')|list %}
roles: {{ roles|join(', ') }} / {{ roles|unique|list }} / {{ roles|length }}
users: {{ messages|selectattr('role', 'equalto', 'user')|list|length }} of {{ messages|rejectattr('role', 'in', ['tool'])|list|length }}
{% for role, group in messages|groupby('role') %}
    {{ loop.index }}/{{ loop.length }} {{ role|title }}={{ group|length }} {{ loop.cycle('odd', 'even') }}
{% else %}
    nobody
{% endfor %}
{% for message in messages if message.content is string and message.content %}
{{ '%-10s|%3d' % (message.role, message.content|length) }} {{ '{:>4}'.format(loop.index) }} {{ "{0}-{0!r}".format(message.role) }}
{{- message.content[:3] }} {{ message.content[::-1][:2] }} {{ message.content|replace('a', 'AA') }} {{ message.content|wordcount }}
{{ message.content|truncate(9) }} {{ message.content|indent(2, first=true) }} {{ message.content|tojson(ensure_ascii=true) }}
{% if loop.index > 2 %}{% break %}{% endif %}
{% endfor %}
{% set total %}{{ [1, 2, 3]|sum }}{% endset %}
{{ total }} {{ 7 // 2 }} {{ 7 % 4 }} {{ 2 ** 5 }} {{ 1 / 4 }} {{ 'ab' * 2 }} {{ [1] + [2] }} {{ {'a': 1, 'b': [none, true]} }} {{ (1, 'x') }}
{{ {'b': 1, 'a': [1.5, none, 'é']}|tojson }} {{ {'b': 1, 'a': 2}|tojson(sort_keys=true, separators=(',', ':')) }} {{ [1, {'a': 2}]|tojson(indent=2) }}
{{ range(3)|list }} {{ range(5)|reverse|list }} {{ range(5)|batch(2)|list }} {{ [3, 1, 2]|sort }} {{ {'b': 1, 'a': 2}|dictsort }} {{ ['a']|first }}
{{ missing }}|{{ missing|default('none') }}|{{ missing is defined }}|{{ none }}|{{ true }}|{{ 1.0 }}|{{ 'x' in 'xyz' }}|{{ 'a' < 'b' < 'c' }}
{%- macro wrap(text) %}<{{ text }}{{ caller() if caller else '' }}>{% endmacro %}
{{ wrap('m') }}{% call wrap('c') %}inner{% endcall %}{% filter upper %}shout{% endfilter %}{% with x = 1 %}{{ x + 1 }}{% endwith %}
{{ bos_token }}{{ 'b' if bos_token is defined else 'no bos' }}{{ "<&>"|e }}{{ namespace(a=1).a }}{{ joiner(',')() }}{{ dict(a=1).items()|list }}
{% for key, value in {'x': 1}|items %}{{ key }}{{ value }}{% endfor %}{{ messages|map(attribute='content')|select('string')|map('upper')|join('+') }}
{{ messages[-1].get('content', '') is none }} {{ (messages[0].content or '').splitlines() }} {{ ('a-b'.split('-'))[1] }} {{ 'x'.join(['1', '2']) }}
""",
    eos='</s>',
)

FAMILIES = {
    'chatml': CHATML,
    'chatml-default': CHATML_WITH_DEFAULT,
    'llama2': LLAMA2,
    'llama3': LLAMA3,
    'llama31': LLAMA31,
    'gemma': GEMMA,
    'mistral': MISTRAL,
    'qwen-tools': QWEN_TOOLS,
    'qwen-thinking': QWEN_THINKING,
    'deepseek': DEEPSEEK,
    'phi3': PHI3,
    'zephyr': ZEPHYR,
    'vicuna': VICUNA,
    'parts': PARTS,
    'generation': GENERATION,
    'oddities': ODDITIES,
}

WEATHER = {
    'type': 'function',
    'function': {
        'name': 'weather',
        'description': 'The weather in a city, "now" & <soon>.',
        'parameters': {
            'type': 'object',
            'properties': {'city': {'type': 'string', 'description': 'Größe 城市'}},
            'required': ['city'],
        },
    },
}
CLOCK = {'type': 'function', 'function': {'name': 'clock', 'description': 'The time.', 'parameters': {}}}


def system(text: str) -> dict[str, Any]:
    return {'role': 'system', 'content': text}


def user(text: Any) -> dict[str, Any]:
    return {'role': 'user', 'content': text}


def assistant(text: Any) -> dict[str, Any]:
    return {'role': 'assistant', 'content': text}


def call(name: str, arguments: Any, *, text: str | None = '') -> dict[str, Any]:
    function = {'name': name, 'arguments': arguments}
    return {
        'role': 'assistant',
        'content': text,
        'tool_calls': [{'id': 'call00001', 'type': 'function', 'function': function}],
    }


def result(text: str) -> dict[str, Any]:
    return {'role': 'tool', 'name': 'weather', 'content': text, 'tool_call_id': 'call00001'}


DIALOGUES: dict[str, list[dict[str, Any]]] = {
    'one question': [user('1+1=?')],
    'with system': [system('Be brief.'), user('1+1=?')],
    'two turns': [user('1+1=?'), assistant('2'), user('2+2=?')],
    'system, two turns': [system(' Be\n brief. '), user(' 1+1=? \n'), assistant('\n2 '), user('2+2=?')],
    'answered': [user('1+1=?'), assistant('2')],
    'answered, with blanks': [user('1+1=?'), assistant('  2\n\n')],
    'not ASCII': [system('你是助手'), user('Größe? 🙂 \u2028'), assistant('｜▁é')],
    'empty': [system(''), user(''), assistant('')],
    'looks like a template': [user('{{ 1 + 1 }}{% raise %} <|im_end|> \\n "quoted" <b>&amp;</b>'), assistant("it's")],
    'two users': [user('a'), user('b')],
    'assistant first': [assistant('Hello'), user('Hi')],
    'late system': [user('a'), system('b'), user('c')],
    'thoughts': [user('a'), assistant('<think>\nhm\n</think>\n\nb'), user('c'), assistant('<think>x</think>d')],
    'tool call': [
        user('Paris?'),
        call('weather', {'city': 'Paris', 'größe': [1, 2.5, None, True]}),
        result('{"t": 20}'),
    ],
    'tool call as text': [user('Paris?'), call('weather', '{"city": "Paris"}', text='Let me see.')],
    'tool call without text': [user('Paris?'), call('weather', {}, text=None), result('sunny'), assistant('Sunny.')],
    'parts': [
        user([{'type': 'image'}, {'type': 'text', 'text': 'What is this? '}]),
        assistant([{'type': 'text', 'text': ' A cat '}]),
    ],
}
