"""Rows for the tasks of lm-evaluation-harness, invented from what their files and functions read.

Columns come from templates and from the source of functions. Each has a shape; when lm-eval refuses the rows, the
columns named in the failing line get another shape, and shapes that worked serve the other tasks of the folder.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import random
import re
from pathlib import Path

from jinja2 import Environment, meta

WORDS = ['alpha', 'beta', 'gamma\n', '中文', 'naïve', '{answer}', '{{x}}', '{% if %}', '</E>', '<|im_end|>', '(B)', '42', '"q"', "it's", ' ', '#### 7', '[x]', 'Yes', 'the']  # fmt: skip
FIELDS = (
    'doc_to_text',
    'doc_to_target',
    'doc_to_choice',
    'gen_prefix',
    'description',
    'process_docs',
    'process_results',
)
LISTS = re.compile('choice|option|ending|candidate|distractor|answers|targets|classes|labels', re.IGNORECASE)
NUMBERS = re.compile('label|gold|idx|index|^answer|correct|target|right|level|id$', re.IGNORECASE)
METHODS = set(dir(str)) | set(dir(list)) | set(dir(dict))
SHAPES = ['text', 'list', 'index', 'digit', 'letter', 'bit', 'ordinal', 'literal', 'textlabel', 'constant', 'bool', 'dicts', 'json', 'letters', 'numbers', 'float', 'same', 'lists']  # fmt: skip
QUOTED = re.compile(r"""['"]([\w -]+)['"]""")
NAMED = re.compile(r"""(?:doc|row|x|item|example|ex|sample|d|line|entry|instance|data|e)\[['"]([\w -]+)['"]\]""")
EQUAL = re.compile(
    r"""\[['"]([\w -]+)['"]\](?:\.lower\(\)|\.strip\(\))*\s*(?:==|in|\.startswith\(|!=)\s*(['"]?)([\w -]+)"""
)

WANTED = [
    (r"has no attribute '(?P<method>\w+)'", ['text']),
    (r'can only concatenate str|must be str|expected string or bytes|join', ['text']),
    (r'string indices must be integers|has no attribute', ['dicts', 'textlabel']),
    (r"for -: |invalid literal|integer|'<' not supported", ['index', 'digit', 'bit', 'ordinal']),
    (r'not iterable|not subscriptable|has no len|concatenate list|malformed', ['list', 'literal', 'lists']),
    (r'has no element', ['list', 'text']),
    (r'JSON|Expecting value', ['json']),
    (r'unhashable', ['text', 'letter', 'index', 'constant']),
]
RECIPES = [
    ('winogrande|metabench.*wino', {'sentence': 'gap', 'answer': 'ordinal', 'option1': 'text', 'option2': 'text'}),
    ('xwinograd', {'sentence': 'gap', 'answer': 'ordinal', 'option1': 'text', 'option2': 'text'}),
    ('copa', {'question': 'of:cause|effect', 'label': 'bit', 'choice1': 'word', 'choice2': 'word', 'premise': 'word'}),
    ('kobest_copa', {'question': 'of:원인|결과', 'label': 'bit', 'alternative_1': 'word', 'alternative_2': 'word'}),
    ('copal_id', {'Terjemahan': 'text'}),
    ('headqa', {'qtext': 'text', 'ra': 'from1', 'answers': 'dicts:atext=text'}),
    ('/race/', {'article': 'text', 'problems': 'problems'}),
    ('math', {'solution': 'boxed', 'problem': 'text', 'level': 'text', 'type': 'text'}),
    ('bigbench/multiple', {'inputs': 'text', 'multiple_choice_targets': 'list', 'targets': 'members:multiple_choice_targets', 'multiple_choice_scores': 'onehot'}),
    ('okapi/arc|arc_multi', dict.fromkeys(('option_a', 'option_b', 'option_c', 'option_d', 'option_e', 'instruction', 'id'), 'text') | {'answer': 'letter'}),
    ('qa4mre', {'answer_options': 'dict:answer_str=list,answer_id=same:["1"]', 'correct_answer_id': 'from1s'}),
    ('mafand', {'translation': 'dict:en=text,fr=text,amh=text'}),
    ('storycloze', {'answer_right_ending': 'from1', 'label': 'bit'}),
    ('mmlu_(de|es|fr|it|pt|hi|th)|llama3.*mmlu', {'input_correct_responses': 'letters', 'input_choice_list': 'dict:A=text,B=text,C=text,D=text', 'input_question': 'text', 'The best answer is': 'text'}),
    ('mathqa', {'options': 'lettered', 'correct': 'letter'}),
    ('logiqa', {'label': 'of:a|b|c|d', 'options': 'list', 'context': 'text', 'question': 'text'}),
    ('wsc273', {'pronoun_loc': 'index', 'text': 'text', 'pronoun': 'text', 'options': 'list', 'label': 'index'}),
    ('click', {'choices': 'list', 'answer': 'member:choices', 'paragraph': 'text', 'question': 'text'}),
]  # fmt: skip
"""The shapes of data sets that are not found by trying."""
SEEN: list[tuple[str, object]] = []


class Spy(str):
    """A value that notes what a filter compares it with."""

    column = ''

    def _note(self, other: object) -> bool:
        if isinstance(other, str | int):
            SEEN.append((self.column, other))
        return True

    __eq__ = startswith = endswith = __contains__ = _note
    __hash__ = str.__hash__

    def lower(self) -> Spy:
        return self

    strip = upper = lower


def spy_on(filter_rows):
    """`Dataset.filter`, which first shows the function a row of spies."""

    def spying(table, function=None, *arguments, **options):
        row = {name: Spy() for name in table.column_names}
        for name, spy in row.items():
            spy.column = name
        with contextlib.suppress(Exception):
            function(row)
        return filter_rows(table, function, *arguments, **options)

    return spying


_KEPT: dict[tuple[str, frozenset[str]], list[dict[str, str]]] = {}
_FAILED: dict[tuple[str, frozenset[str]], int] = {}


def text(rng: random.Random, most: int = 5) -> str:
    """A few hostile words."""
    return ' '.join(rng.choice(WORDS) for _ in range(rng.randint(1, most)))


class Invention:
    """The rows of one task, and what was learnt about them."""

    def __init__(self, config: dict, path: Path) -> None:
        self.rng = random.Random(path.name)
        self.sources, self.constants, given = [], [], {}
        self.columns: set[str] = set()
        for part in (config, config.get('fewshot_config') or {}):
            for key in FIELDS:
                self._read(part.get(key), given)
        self.columns -= {'range', 'len'}
        self.attributes = {name: inner for name in self.columns if (inner := self._inner(name))}
        self.constants += [one for source in self.sources for one in QUOTED.findall(source) if len(one) < 40]
        self.key = (str(path.parent.parent), frozenset(self.columns))
        self.last: dict = {}
        SEEN.clear()
        self.waiting = list(_KEPT.get(self.key, ()))
        self.fixed = dict(self._wanted(given))
        self.shapes = self.waiting.pop() if self.waiting else self._first_shapes()
        for pattern, shapes in RECIPES:
            if re.search(pattern, str(path)):
                self.fixed = {name: shape for name, shape in shapes.items() if name in self.columns} | self.fixed
        self.shapes |= self.fixed
        self.patience = 6 if _FAILED.get(self.key, 0) > 2 else 10_000

    def _read(self, spec: object, given: dict) -> None:
        if isinstance(spec, str):
            self.sources.append(spec)
            if re.fullmatch(r'[\w-]+', spec):
                self.columns.add(spec)
            with contextlib.suppress(Exception):
                self.columns |= meta.find_undeclared_variables(Environment().parse(spec))
        elif callable(spec):
            while isinstance(spec, functools.partial):
                given |= spec.keywords
                self.constants += [one for one in (*spec.args, *spec.keywords.values()) if isinstance(one, str)]
                spec = spec.func
            with contextlib.suppress(Exception):
                given |= inspect.getclosurevars(spec).nonlocals
                for value in inspect.getclosurevars(spec).globals.values():
                    if isinstance(value, dict):
                        self.constants += [key for key in value if isinstance(key, str | int)][:40]
                module = inspect.getsource(inspect.getmodule(spec))
                self.sources.append(module)
                self.columns |= set(NAMED.findall(module)) | set(re.findall(r"""\.get\(['"](\w+)['"]""", module))

    def _inner(self, name: str) -> list[str]:
        found: dict[str, None] = {}
        for source in self.sources:
            for pair in re.findall(rf"""\b{re.escape(name)}(?:['"]\])?(?:\.(\w+)\b|\[['"](\w+)['"]\])""", source):
                found |= dict.fromkeys(one for one in pair if one and one not in METHODS)
        return list(found)

    def _wanted(self, given: dict):
        """Columns that are compared with something: a literal, or what a partial function was given."""
        for source in self.sources:
            for name, quote, other in EQUAL.findall(source):
                value = other if quote else given.get(other)
                if isinstance(value, str) and name in self.columns:
                    yield name, f'same:{json.dumps(value)}'

    def _first_shapes(self) -> dict[str, str]:
        def shape(name: str) -> str:
            if inner := self.attributes.get(name):
                return 'dict:' + ','.join(
                    f'{one}={shape(one) if one not in self.attributes else "text"}' for one in inner
                )
            return 'list' if LISTS.search(name) else 'index' if NUMBERS.search(name) else 'text'

        return {name: shape(name) for name in sorted(self.columns)}

    def rows(self, count: int) -> list[dict]:
        """Rows in the present shapes."""
        made = []
        for _ in range(count):
            row = {name: self._value(shape) for name, shape in self.shapes.items()}
            for name, shape in self.shapes.items():
                if (
                    shape.startswith('member:')
                    and isinstance(others := row.get(shape.partition(':')[2]), list)
                    and others
                ):
                    row[name] = self.rng.choice(others)
                if shape.startswith('members:') and isinstance(others := row.get(shape.partition(':')[2]), list):
                    row[name] = [self.rng.choice(others)]
            made.append(row)
        self.last = made[0]
        return made

    def _value(self, shape: str):
        rng = self.rng
        if shape.startswith('same:'):
            return json.loads(shape.removeprefix('same:'))
        if shape.startswith('of:'):
            return rng.choice(shape.removeprefix('of:').split('|'))
        if shape.startswith(('dict:', 'dicts:')):
            kind, _, rest = shape.partition(':')
            parts = [part.partition('=') for part in rest.split(',')]
            made = [
                {one: list('ABCD') if one == 'label' else self._value(inner) for one, _, inner in parts}
                for _ in range(4)
            ]
            return made[0] if kind == 'dict' else made
        simple = {
            'list': lambda: [f'{text(rng, 3)}{i}' for i in range(4)],
            'lists': lambda: [[f'{text(rng, 2)}{i}' for i in range(3)] for _ in range(3)],
            'index': lambda: rng.randrange(4),
            'bit': lambda: rng.randrange(2),
            'digit': lambda: str(rng.randrange(4)),
            'letter': lambda: rng.choice('ABCD'),
            'ordinal': lambda: rng.choice('12'),
            'textlabel': lambda: {'text': [f'{text(rng, 2)}{i}' for i in range(4)], 'label': list('ABCD')},
            'literal': lambda: str([f'w{i}' for i in range(4)]),
            'constant': lambda: rng.choice(self.constants) if self.constants else 'yes',
            'bool': lambda: rng.random() < 0.5,
            'json': lambda: json.dumps({'a': text(rng), 'b': [1, 2]}),
            'letters': lambda: list('ABCD'),
            'numbers': lambda: [rng.randrange(4) for _ in range(4)],
            'word': lambda: f'x{text(rng)}.',
            'gap': lambda: f'{text(rng)} _ {text(rng)}.',
            'from1': lambda: rng.randint(1, 2),
            'from1s': lambda: str(rng.randint(1, 4)),
            'boxed': lambda: f'{text(rng)} so $\\boxed{{{rng.randrange(40)}}}$.',
            'onehot': lambda: rng.choice(([1, 0, 0, 0], [0, 0, 1, 0])),
            'lettered': lambda: ' , '.join(f'{letter} ) {rng.randrange(90)}' for letter in 'abcde'),
            'problems': lambda: str(
                [{'question': text(rng), 'answer': rng.choice('ABCD'), 'options': [f'o{i}' for i in range(4)]}] * 2
            ),
            'float': lambda: rng.randrange(40) / 4,
        }
        return simple.get(shape, lambda: text(rng))()

    def learn(self, error: BaseException, attempt: int) -> bool:
        """Change the shapes after a refusal; False when there is no point in going on."""
        if attempt >= self.patience or 'unexpected keyword' in str(error):
            return False
        if compared := self._compared():
            self.fixed |= compared
            self.shapes |= compared
            return True
        if self.waiting:
            self.shapes = self.waiting.pop() | self.fixed
            return True
        if attempt % 15 == 14:
            self.shapes = self._first_shapes() | self.fixed
        given = error.args[0] if error.args else None
        by_value = [name for name, value in self.last.items() if value == given or repr(value) in str(error)]
        if isinstance(error, KeyError) and isinstance(given, str) and not by_value and given not in self.shapes:
            self.shapes[given] = 'text'
            return True
        if by_value and isinstance(error, KeyError | ValueError):
            lists = [f'member:{name}' for name, value in self.last.items() if isinstance(value, list)]
            ways = ['letter', 'digit', 'index', 'ordinal', 'bit', 'constant', 'same', 'literal', *lists]
            self.shapes[by_value[0]] = self._named(self.rng.choice(ways))
            return True
        for name in self._blamed(error):
            self.shapes[name] = self._wanted_by(error) or self._another(name)
        return True

    def _compared(self) -> dict[str, str]:
        """What filters compared columns with, as the spies among the rows saw it."""
        seen = {name: f'same:{json.dumps(value)}' for name, value in SEEN if name in self.shapes}
        SEEN.clear()
        return {name: shape for name, shape in seen.items() if self.fixed.get(name) != shape}

    def _wanted_by(self, error: BaseException) -> str | None:
        if self.rng.random() < 0.3:
            return None
        said = str(error)
        for pattern, shapes in WANTED:
            if match := re.search(pattern, said):
                method = match.groupdict().get('method')
                if method is None or method in dir(str):
                    return self._named(self.rng.choice(shapes))
        return None

    def _named(self, shape: str) -> str:
        return f'same:{json.dumps(self.rng.choice(self.constants or ["yes"]))}' if shape == 'same' else shape

    def _another(self, name: str) -> str:
        shape = self.rng.choice(SHAPES)
        if shape == 'same':
            return self._named(shape)
        if shape == 'dicts' or (name in self.attributes and self.rng.random() < 0.5):
            inner = self.attributes.get(name) or [self.rng.choice(sorted(map(str, self.constants)) or ['text'])]
            kind = self.rng.choice(('dict', 'dicts'))
            parts = (f'{one}={self.rng.choice(("text", "list", "index", "letter", "digit"))}' for one in inner)
            return f'{kind}:' + ','.join(part for part in parts if ':' not in part)
        return shape

    def _blamed(self, error: BaseException) -> list[str]:
        """The columns that the failing line reads, one or two of them; any where it does not say."""
        lines, trace = [], error.__traceback__
        while trace is not None:
            code = trace.tb_frame.f_code
            if '/tasks/' in code.co_filename:
                with contextlib.suppress(Exception):
                    listed = Path(code.co_filename).read_text().splitlines()
                    lines.append('\n'.join(listed[trace.tb_lineno - 1 : trace.tb_lineno + 2]))
            trace = trace.tb_next
        names = sorted(name for name in self.shapes if name not in self.fixed or self.rng.random() < 0.05)
        for line in reversed(lines):
            read = [name for name in names if re.search(rf"""['"]{re.escape(name)}['"]""", line)]
            guilty = [name for name in read if type(self.last.get(name)).__name__ in str(error)]
            if (read := guilty or read) and self.rng.random() < 0.8:
                return self.rng.sample(read, min(len(read), self.rng.randint(1, 2)))
        guilty = [name for name in names if f"'{type(self.last.get(name)).__name__}" in str(error)]
        if guilty and self.rng.random() < 0.7:
            return [self.rng.choice(guilty)]
        return self.rng.sample(names, min(len(names), self.rng.randint(1, 3)))

    def keep(self) -> None:
        """These shapes worked: begin with them for the next task of the kind."""
        kept = _KEPT.setdefault(self.key, [])
        shapes = {name: shape for name, shape in self.shapes.items() if name not in self.fixed}
        if shapes in kept:
            kept.remove(shapes)
        kept.append(shapes)
        del kept[:-4]

    def give_up(self) -> None:
        """Nothing fitted: the next tasks of the kind are tried less often."""
        _FAILED[self.key] = _FAILED.get(self.key, 0) + 1
