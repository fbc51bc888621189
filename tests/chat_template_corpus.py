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
{%- set lead = namespace(text='') -%}
{%- set expected = cycler('user', 'assistant') -%}
{%- for turn in messages -%}
    {%- if loop.first and turn.role == 'system' -%}
        {%- set lead.text = '<<SYS>>\\n' ~ turn.content ~ '\\n<</SYS>>\\n\\n' -%}
        {%- continue -%}
    {%- endif -%}
    {%- if turn.role != expected.next() -%}{{ raise_exception('user and assistant must take turns') }}{%- endif -%}
    {%- if turn.role == 'user' -%}
        {{ bos_token }}[INST] {{ (lead.text ~ turn.content).strip() }} [/INST]
        {%- set lead.text = '' -%}
    {%- else -%}
        {{ ' ' ~ turn.content.strip() ~ ' ' ~ eos_token }}
    {%- endif -%}
{%- endfor -%}
""",
    bos='<s>',
    eos='</s>',
)

LLAMA3 = Family(
    """
{%- macro head(role) %}<|start_header_id|>{{ role }}<|end_header_id|>{{ '\\n\\n' }}{% endmacro -%}
{{ bos_token }}
{%- for turn in messages %}{{ head(turn.role) + turn.content|trim + '<|eot_id|>' }}{% endfor %}
{%- if add_generation_prompt %}{{ head('assistant') }}{% endif -%}
""",
    bos='<|begin_of_text|>',
    eos='<|eot_id|>',
)

LLAMA31 = Family(
    """
{%- macro head(role) %}<|start_header_id|>{{ role }}<|end_header_id|>{{ '\\n\\n' }}{% endmacro -%}
{%- set day = date_string if date_string is defined else strftime_now('%d %b %Y') -%}
{%- set told = messages[0].content|trim if messages[0].role == 'system' else '' -%}
{{ bos_token + head('system') }}Today Date: {{ day }}{{ '\\n\\n' }}
{%- for tool in tools or [] -%}
    {%- if loop.first %}Functions at hand:{{ '\\n' }}{% endif -%}
    {{ tool|tojson(indent=4) + '\\n\\n' }}
{%- endfor -%}
{{ told }}<|eot_id|>
{%- for turn in messages -%}
    {%- if loop.first and turn.role == 'system' -%}{%- continue -%}{%- endif -%}
    {%- if turn.tool_calls -%}
        {%- if turn.tool_calls|length > 1 -%}{{ raise_exception('one call at a time') }}{%- endif -%}
        {%- set wanted = turn.tool_calls|map(attribute='function')|first -%}
        {{ head('assistant') ~ {'name': wanted.name, 'parameters': wanted.arguments}|tojson }}
    {%- elif turn.role == 'tool' -%}
        {{ head('ipython') ~ turn.content|tojson }}
    {%- else -%}
        {{ head(turn.role) ~ turn.content|trim }}
    {%- endif -%}
    <|eot_id|>
{%- endfor -%}
{%- if add_generation_prompt %}{{ head('assistant') }}{% endif -%}
""",
    bos='<|begin_of_text|>',
    eos='<|eot_id|>',
)

GEMMA = Family(
    """
{%- set names = {'user': 'user', 'assistant': 'model'} -%}
{{ bos_token }}
{%- for turn in messages -%}
    {%- if turn.role not in names -%}{{ raise_exception('there is no role ' ~ turn.role) }}{%- endif -%}
    {%- if turn.role != loop.cycle('user', 'assistant') -%}{{ raise_exception('turns must alternate') }}{%- endif -%}
    <start_of_turn>{{ names[turn.role] ~ '\\n' ~ turn.content|trim }}<end_of_turn>{{ '\\n' }}
{%- endfor -%}
{{ '<start_of_turn>model\\n' if add_generation_prompt }}
""",
    bos='<bos>',
    eos='<eos>',
)

MISTRAL = Family(
    """
{%- set asked = messages|selectattr('role', 'equalto', 'user')|list -%}
{%- set told = messages|selectattr('role', 'equalto', 'system')|map(attribute='content')|join('\\n\\n') -%}
{{ bos_token }}
{%- for turn in messages -%}
    {%- set is_last_question = asked and turn == asked[-1] -%}
    {%- if turn.role == 'system' -%}
        {%- if not loop.first -%}{{ raise_exception('a system message comes first') }}{%- endif -%}
    {%- elif turn.role == 'user' -%}
        {%- if tools and is_last_question -%}
            [AVAILABLE_TOOLS] {{ tools|tojson }}[/AVAILABLE_TOOLS]
        {%- endif -%}
        [INST] {{ told ~ '\\n\\n' if told and is_last_question }}{{ turn.content }}[/INST]
    {%- elif turn.get('tool_calls') -%}
        [TOOL_CALLS] [
        {%- for wanted in turn.tool_calls -%}
            {{ {'id': wanted.id[-9:], 'function': wanted.function}|tojson }}{{ ', ' if not loop.last }}
        {%- endfor -%}
        ]{{ eos_token }}
    {%- elif turn.role == 'tool' -%}
        [TOOL_RESULTS] {{ {'content': turn.content, 'call_id': turn.tool_call_id}|tojson }}[/TOOL_RESULTS]
    {%- else -%}
        {{ ' ' + turn.content|trim + eos_token }}
    {%- endif -%}
{%- endfor -%}
""",
    bos='<s>',
    eos='</s>',
)

QWEN_TOOLS = Family("""
{%- macro say(role, text) %}<|im_start|>{{ role ~ '\\n' ~ text }}<|im_end|>{{ '\\n' }}{% endmacro -%}
{%- set told = messages[0].content if messages[0].role == 'system' else 'You are a careful assistant.' -%}
{%- set offer -%}
    {%- for tool in tools or [] %}{{ '\\n' ~ tool|tojson }}{% endfor -%}
{%- endset -%}
{{ say('system', told ~ ('\\n\\n# Tools\\n<tools>' ~ offer ~ '\\n</tools>' if tools else '')) }}
{%- set ns = namespace(answers=[]) -%}
{%- for turn in messages -%}
    {%- if turn.role == 'tool' -%}
        {%- set ns.answers = ns.answers + ['<tool_response>\\n' ~ turn.content ~ '\\n</tool_response>'] -%}
        {%- if loop.nextitem is not defined or loop.nextitem.role != 'tool' -%}
            {{ say('user', ns.answers|join('\\n')) }}
            {%- set ns.answers = [] -%}
        {%- endif -%}
    {%- elif turn.tool_calls -%}
        {%- set lines = namespace(all=[turn.content] if turn.content else []) -%}
        {%- for wanted in turn.tool_calls -%}
            {%- set request = '{"name": ' ~ wanted.function.name|tojson ~ ', "arguments": ' ~ wanted.function.arguments|tojson ~ '}' -%}
            {%- set lines.all = lines.all + ['<tool_call>\\n' ~ request ~ '\\n</tool_call>'] -%}
        {%- endfor -%}
        {{ say(turn.role, lines.all|join('\\n')) }}
    {%- elif not (loop.first and turn.role == 'system') -%}
        {{ say(turn.role, turn.content) }}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif -%}
""")

QWEN_THINKING = Family("""
{%- set last = namespace(question=-1) -%}
{%- for turn in messages -%}
    {%- set is_answer = turn.content is string and turn.content.startswith('<tool_response>') -%}
    {%- if turn.role == 'user' and not is_answer %}{% set last.question = loop.index0 %}{% endif -%}
{%- endfor -%}
{%- for turn in messages -%}
    {%- set text = turn.content if turn.content is string else '' -%}
    {%- if turn.role == 'assistant' and '</think>' in text -%}
        {%- set thought, _, answer = text.partition('</think>') -%}
        {%- set thought = thought.rpartition('<think>')[2].strip('\\n') -%}
        {%- set text = answer.lstrip('\\n') -%}
        {%- if loop.index0 > last.question -%}
            {%- set text = '<think>\\n' + thought + '\\n</think>\\n\\n' + text -%}
        {%- endif -%}
    {%- endif -%}
    <|im_start|>{{ turn.role + '\\n' + text }}<|im_end|>{{ '\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{ '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and not enable_thinking %}{{ '<think>\\n\\n</think>\\n\\n' }}{% endif -%}
{%- endif -%}
""")

DEEPSEEK = Family(
    """
{%- set marks = {'user': '<｜User｜>', 'assistant': '<｜Assistant｜>'} -%}
{{ bos_token ~ messages|selectattr('role', 'eq', 'system')|map(attribute='content')|join }}
{%- for turn in messages if turn.role in marks and turn.content is not none -%}
    {{ marks[turn.role] + (turn.content.split('</think>')|last if turn.role == 'assistant' else turn.content) }}
    {%- if turn.role == 'assistant' %}{{ eos_token }}{% endif -%}
{%- endfor -%}
{{ marks.assistant if add_generation_prompt }}
""",
    bos='<｜begin▁of▁sentence｜>',
    eos='<｜end▁of▁sentence｜>',
)

PHI3 = Family(
    """
{%- for turn in messages if turn.content -%}
    {%- if turn.role not in ('system', 'user', 'assistant') %}{% continue %}{% endif -%}
    {{ '<|%s|>\\n%s<|end|>\\n' % (turn.role, turn.content) }}
{%- endfor -%}
{{ '<|assistant|>\\n' if add_generation_prompt else eos_token }}
""",
    bos='<s>',
    eos='<|endoftext|>',
)

ZEPHYR = Family(
    """\
{% for turn in messages if turn.role in ['system', 'user', 'assistant'] %}
<|{{ turn.role }}|>
{{ turn.content ~ eos_token }}
{% endfor %}
{% if messages and add_generation_prompt %}
<|assistant|>
{% endif %}""",
    bos='<s>',
    eos='</s>',
)

VICUNA = Family(
    """
{%- set told = 'A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, detailed, and polite answers to the user\\'s questions.' -%}
{%- set names = {'user': 'USER', 'assistant': 'ASSISTANT'} -%}
{{ bos_token ~ (messages[0].content|trim if messages[0].role == 'system' else told) ~ ' ' }}
{%- for turn in messages if turn.role in names -%}
    {{ names[turn.role] ~ ': ' ~ turn.content|trim ~ (eos_token if turn.role == 'assistant' else ' ') }}
{%- endfor -%}
{{ 'ASSISTANT:' if add_generation_prompt }}
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
