"""Bad input of every kind, and the exact words that answer it: what is wrong, where, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from rolecall.models.model_names import SOURCES
from rolecall.ui.cli.main import main

GOOD = """
models = [dict(abbr='m', type='OpenAI', path='x', key='k')]
datasets = [dict(abbr='qa', type='Rows', test=[dict(q='1+1', a='2'), dict(q='2+2', a='4')],
    reader_cfg=dict(input_columns=['q'], output_column='a'),
    infer_cfg=dict(prompt_template=dict(type='PromptTemplate', template='{q}'), inferencer=dict(type='GenInferencer', max_out_len=8)),
    eval_cfg=dict(evaluator=dict(type='AccEvaluator')))]
"""
FUNCTIONS = """
def f(p): return "2"
def boom(p): raise ValueError("no luck")
def none(p): return None
x = 5
"""
FILES: dict[str, str | bytes] = {'rows.csv': 'question,answer\n1+1,2\n2+2,4\n', 'good.py': GOOD, 'mine.py': FUNCTIONS}
R = ['--answer', 'answer', '--metric', 'exact']
PPL = GOOD.replace("type='GenInferencer'", "type='PPLInferencer', labels=['2', '4']")
FAILING = ('function-raises', 'function-returns-none', 'closed-port')
"""These run, and their rows fail: exit code 1. Everything else is refused before anything is sent: exit code 2."""

CASES: list[tuple[str, dict[str, str | bytes], list[str], str]] = [
    (
        'missing-config',
        {},
        ['run', 'nowhere.py'],
        ('rolecall: nowhere.py\n  cannot be read: No such file or directory.\n  Check the path.'),
    ),
    (
        'misspelt-config',
        {},
        ['run', 'goood.py'],
        ("rolecall: goood.py\n  cannot be read: No such file or directory.\n  Did you mean 'good.py'?"),
    ),
    (
        'folder-as-config',
        {'d/x.txt': ''},
        ['run', 'd'],
        (
            'rolecall: d\n  is a folder, not a config.\n  Name a file. `rolecall report`, `compare` and `explain` read run '
            'directories.'
        ),
    ),
    (
        'binary-config',
        {'c.py': b'\x00\x01'},
        ['run', 'c.py'],
        (
            'rolecall: c.py:1\n'
            '  source code string cannot contain null bytes\n'
            '  Configs are Python files, and this line does not parse.'
        ),
    ),
    (
        'syntax-error',
        {'c.py': 'models = [\n'},
        ['run', 'c.py'],
        (
            'rolecall: c.py:1\n'
            "  '[' was never closed: models = [\n"
            '  Configs are Python files, and this line does not parse.'
        ),
    ),
    (
        'config-raises',
        {'c.py': 'x = 1\ny = x / 0\n'},
        ['run', 'c.py'],
        ('rolecall: c.py:2\n  ZeroDivisionError: division by zero'),
    ),
    (
        'config-misspells-a-name',
        {'c.py': 'modls = []\nmodels = modles\n'},
        ['run', 'c.py'],
        ("rolecall: c.py:2\n  NameError: name 'modles' is not defined\n  Did you mean 'modls'?"),
    ),
    (
        'config-is-empty',
        {'c.py': ''},
        ['run', 'c.py'],
        (
            'rolecall: no model is given: asking the embedded smollm2. Choose another with --model.\n'
            'rolecall: c.py: datasets\n'
            '  the config has no datasets.\n'
            '  Add datasets=[dict(…)].'
        ),
    ),
    (
        'config-exits',
        {'c.py': 'raise SystemExit(3)\n'},
        ['run', 'c.py'],
        ('rolecall: c.py:1\n  SystemExit: 3'),
    ),
    (
        'import-of-a-missing-config',
        {'c.py': 'from .nothing import datasets\n'},
        ['run', 'c.py'],
        ("rolecall: c.py:1\n  config file not found: '.nothing'.\n  Looked for DIR/nothing.py."),
    ),
    (
        'yaml-broken',
        {'c.yaml': 'datasets:\n  - abbr: [\n'},
        ['run', 'c.yaml'],
        ('rolecall: c.yaml:3\n  is not YAML: did not find expected node content.'),
    ),
    (
        'yaml-without-datasets',
        {'c.yaml': 'model: x\n'},
        ['run', 'c.yaml'],
        (
            'rolecall: no model is given: asking the embedded smollm2. Choose another with --model.\n'
            'rolecall: c.yaml: datasets\n'
            '  the config has no datasets.\n'
            '  Add datasets=[dict(…)].'
        ),
    ),
    (
        'json-config-broken',
        {'c.json': '{"datasets": [{"infer_cfg": 1}'},
        ['run', 'c.json'],
        ("rolecall: c.json:1\n  is not JSON: Expecting ',' delimiter."),
    ),
    (
        'datasets-misspelt',
        {'c.py': 'dataset = [dict(abbr="x")]\n'},
        ['run', 'c.py'],
        (
            'rolecall: DIR/c.py:1: dataset\n'
            "  unknown name 'dataset', and the config has no datasets.\n"
            "  Did you mean 'datasets'?"
        ),
    ),
    (
        'datasets-not-a-list',
        {'c.py': 'datasets = dict(a=1)\n'},
        ['run', 'c.py'],
        (
            'rolecall: DIR/c.py:1: datasets\n'
            '  expected a list of dicts, found dict.\n'
            '  Write datasets = [dict(...), ...].'
        ),
    ),
    (
        'nested-list',
        {'c.py': GOOD + 'datasets = [datasets]\n'},
        ['run', 'c.py'],
        (
            'rolecall: DIR/c.py:7: datasets[0]\n'
            '  expected a dict, found a list.\n'
            '  Join lists with datasets = [*a_datasets, *b_datasets], and leave no comma after the closing bracket.'
        ),
    ),
    (
        'entry-not-a-dict',
        {'c.py': GOOD + 'datasets = [5]\n'},
        ['run', 'c.py'],
        ('rolecall: DIR/c.py:7: datasets[0]\n  expected a dict, got int 5.'),
    ),
    (
        'model-entry-not-a-dict',
        {'c.py': GOOD + 'models = [5]\n'},
        ['run', 'c.py'],
        ('rolecall: DIR/c.py:7: models[0]\n  expected a dict, got int 5.'),
    ),
    (
        'no-infer-cfg',
        {'c.py': GOOD + 'del datasets[0]["infer_cfg"]\n'},
        ['run', 'c.py'],
        (
            'rolecall: DIR/c.py:3: datasets[0]\n'
            '  infer_cfg is missing.\n'
            '  It defines the prompt template, retriever and inferencer.'
        ),
    ),
    (
        'misspelt-entry-key',
        {'c.py': GOOD + 'datasets[0]["infer_cgf"] = datasets[0].pop("infer_cfg")\n'},
        ['run', 'c.py'],
        (
            'rolecall: DIR/c.py:3: datasets[0]\n'
            "  unknown key 'infer_cgf'.\n"
            "  Did you mean 'infer_cfg'?\n"
            'DIR/c.py:3: datasets[0]\n'
            '  infer_cfg is missing.\n'
            '  It defines the prompt template, retriever and inferencer.'
        ),
    ),
    (
        'misspelt-infer-key',
        {'c.py': GOOD + 'datasets[0]["infer_cfg"]["retriver"] = 1\n'},
        ['run', 'c.py'],
        ("rolecall: DIR/c.py:5: datasets[0].infer_cfg\n  unknown key 'retriver'.\n  Did you mean 'retriever'?"),
    ),
    (
        'misspelt-reader-key',
        {'c.py': GOOD + 'datasets[0]["reader_cfg"]["input_colums"] = []\n'},
        ['run', 'c.py'],
        ("rolecall: DIR/c.py:7: datasets[0].reader_cfg.input_colums\n  unknown key.\n  Did you mean 'input_columns'?"),
    ),
    (
        'bad-range',
        {'c.py': GOOD + 'datasets[0]["reader_cfg"]["test_range"] = "[0:5"\n'},
        ['run', 'c.py'],
        (
            'rolecall: DIR/c.py:4: datasets[0].reader_cfg.test_range\n'
            "  '[0:5' is not a range: write slices such as '[0:10]', '[::2]' or '[:100][3:5]'."
        ),
    ),
    (
        'range-leaves-nothing',
        {'c.py': GOOD + 'datasets[0]["reader_cfg"]["test_range"] = "[5:9]"\n'},
        ['run', 'c.py'],
        (
            'rolecall: qa (no-rows)\n'
            "  there are no rows to ask about: test_range '[5:9]' leaves none.\n"
            '  Look at the file, and at test_split and test_range of reader_cfg.\n'
            'lint\n'
            '  1 error found before the run; nothing was sent.\n'
            '  Correct the config, or run it as it is with --force (force=True).'
        ),
    ),
    (
        'unknown-retriever',
        {'c.py': GOOD + 'datasets[0]["infer_cfg"]["retriever"] = dict(type="BM52Retriever")\n'},
        ['run', 'c.py'],
        (
            'rolecall: DIR/c.py:7: datasets[0].infer_cfg.retriever.type\n'
            "  unknown retriever 'BM52Retriever'.\n"
            "  Did you mean 'BM25Retriever'?"
        ),
    ),
    (
        'unknown-inferencer',
        {'c.py': GOOD + 'datasets[0]["infer_cfg"]["inferencer"] = dict(type="GenInferncer")\n'},
        ['run', 'c.py'],
        (
            'rolecall: DIR/c.py:7: datasets[0].infer_cfg.inferencer.type\n'
            "  unknown inferencer 'GenInferncer'.\n"
            "  Did you mean 'GenInferencer'?"
        ),
    ),
    (
        'unknown-evaluator',
        {'c.py': GOOD + 'datasets[0]["eval_cfg"]["evaluator"] = dict(type="AcEvaluator")\n'},
        ['run', 'c.py'],
        (
            'rolecall: DIR/c.py:7: datasets[0].eval_cfg.evaluator\n'
            "  unknown metric 'AcEvaluator'.\n"
            "  Did you mean 'AccEvaluator'?"
        ),
    ),
    (
        'unknown-template',
        {'c.py': GOOD + 'datasets[0]["infer_cfg"]["prompt_template"]["type"] = "PromptTemplat"\n'},
        ['run', 'c.py'],
        (
            'rolecall: DIR/c.py:5: datasets[0].infer_cfg.prompt_template.type\n'
            "  unknown template 'PromptTemplat'.\n"
            "  Did you mean 'PromptTemplate'?"
        ),
    ),
    (
        'template-is-a-number',
        {'c.py': GOOD + 'datasets[0]["infer_cfg"]["prompt_template"]["template"] = 5\n'},
        ['run', 'c.py'],
        (
            'rolecall: DIR/c.py:5: datasets[0].infer_cfg.prompt_template.template\n'
            '  expected a string or a dialogue, got int 5.\n'
            '  A dialogue is a dict with the keys begin, round, end.'
        ),
    ),
    (
        'misspelt-field',
        {'c.py': GOOD.replace("'{q}'", "'{Q}'")},
        ['run', 'c.py'],
        (
            'rolecall: qa (unfilled-field)\n'
            '  the template has the field {Q}, and the row has no such column: it is sent as written.\n'
            '  Did you mean {q}? Name a column of the rows, or write the braces in another way if they are meant as text.\n'
            'qa (same-prompt)\n'
            '  every row gives the same prompt.\n'
            '  Write the columns that differ into the template, in braces: {question}.\n'
            'lint\n'
            '  2 errors found before the run; nothing was sent.\n'
            '  Correct the config, or run it as it is with --force (force=True).'
        ),
    ),
    (
        'same-prompt',
        {'c.py': GOOD.replace("'{q}'", "'Hello'")},
        ['run', 'c.py'],
        (
            'rolecall: qa (same-prompt)\n'
            '  every row gives the same prompt.\n'
            '  Write the columns that differ into the template, in braces: {question}.\n'
            'lint\n'
            '  1 error found before the run; nothing was sent.\n'
            '  Correct the config, or run it as it is with --force (force=True).'
        ),
    ),
    (
        'output-column-missing',
        {'c.py': GOOD.replace("output_column='a'", "output_column='answr'")},
        ['run', 'c.py'],
        (
            'rolecall: qa (output-column-missing)\n'
            "  the rows have no column 'answr' (output_column), so nothing is hidden from the model. The rows have: q, a.\n"
            '  Set reader_cfg.output_column to the column that holds the gold answer, or to None if there is none.\n'
            'lint\n'
            '  1 error found before the run; nothing was sent.\n'
            '  Correct the config, or run it as it is with --force (force=True).'
        ),
    ),
    (
        'labels-missing',
        {'c.py': GOOD.replace('GenInferencer', 'PPLInferencer')},
        ['run', 'c.py'],
        (
            'rolecall: DIR/c.py:5: datasets[0].infer_cfg\n'
            '  PPLInferencer compares labels, but none are given.\n'
            '  Give a template for each label, or inferencer=dict(type=PPLInferencer, labels=[…]).'
        ),
    ),
    (
        'perplexity-of-an-api',
        {'c.py': PPL},
        ['run', 'c.py'],
        (
            'rolecall: DIR/c.py:3: datasets[0] × models[0]\n'
            '  PPLInferencer needs prompt log-probabilities; model m does not provide them.\n'
            "  Use a local model, or a server that gives them (score='echo' or 'prompt_logprobs'); or use GenInferencer."
        ),
    ),
    (
        'unknown-model-type',
        {'c.py': GOOD.replace("type='OpenAI'", "type='OpenAy'")},
        ['run', 'c.py'],
        ("rolecall: DIR/c.py:2: models[0].type\n  unknown model 'OpenAy'.\n  Did you mean 'OpenAI'?"),
    ),
    (
        'misspelt-model-key',
        {'c.py': GOOD.replace("key='k'", 'temperatur=0')},
        ['run', 'c.py'],
        ("rolecall: DIR/c.py:2: models[0].temperatur\n  unknown option.\n  Did you mean 'temperature'?"),
    ),
    (
        'bad-max-out-len',
        {'c.py': GOOD.replace('max_out_len=8', "max_out_len='many'")},
        ['run', 'c.py'],
        (
            'rolecall: DIR/c.py:3: datasets[0] × models[0]: max_out_len\n'
            "  expected a whole number of at least 1, got 'many'.\n"
            '  Write max_out_len=1 or more, or leave it out.'
        ),
    ),
    (
        'same-abbr-twice',
        {'c.py': GOOD + 'datasets *= 2\n'},
        ['run', 'c.py'],
        (
            'rolecall: DIR/c.py:3: datasets[1]\n'
            "  the abbr 'qa' is also used by datasets[0]; their results would be mixed up.\n"
            '  Give each dataset an abbr of its own.'
        ),
    ),
    (
        'no-examples-to-pick',
        {
            'c.py': GOOD
            + 'datasets[0]["infer_cfg"].update(ice_template=dict(type="PromptTemplate", template="{q} {a}"), retriever=dict(type="FixKRetriever", fix_id_list=[0]))\n'
        },
        ['run', 'c.py'],
        (
            'rolecall: DIR/c.py:5: datasets[0].infer_cfg.prompt_template\n'
            '  the template has no ice_token, so the examples the retriever picks have no place.\n'
            "  Put a token such as '</E>' where they belong, and set ice_token='</E>'."
        ),
    ),
    (
        'missing-rows',
        {},
        ['run', 'nowhere.csv', *R],
        ('rolecall: nowhere.csv: no such file.'),
    ),
    (
        'empty-rows',
        {'e.csv': ''},
        ['run', 'e.csv', *R, '--model', 'mine:f'],
        ('rolecall: e.csv: no rows: the file is empty or has only a header.'),
    ),
    (
        'header-only',
        {'e.csv': 'question,answer\n'},
        ['run', 'e.csv', *R, '--model', 'mine:f'],
        ('rolecall: e.csv: no rows: the file is empty or has only a header.'),
    ),
    (
        'broken-jsonl',
        {'e.jsonl': '{"question": 1}\n{"question": \n'},
        ['run', 'e.jsonl', '--model', 'mine:f'],
        (
            'rolecall: e.jsonl:2: not valid JSON: Expecting value (column 15).\n'
            "  Correct the line, or skip and count such lines of a dataset: --on-error skip, or on_error='skip' in a config."
        ),
    ),
    (
        'ragged-csv',
        {'e.csv': 'question,answer\n1,2,3\n'},
        ['run', 'e.csv', *R, '--model', 'mine:f'],
        (
            'rolecall: e.csv:2: 3 fields, expected 2.\n'
            "  Correct the line, or skip and count such lines of a dataset: --on-error skip, or on_error='skip' in a config."
        ),
    ),
    (
        'json-is-not-rows',
        {'e.json': '5'},
        ['run', 'e.json', '--model', 'mine:f'],
        (
            'rolecall: e.json: no rows found: expected a list of objects, columns of equal length, or objects by id.\n'
            "  For one row per line use the suffix .jsonl (or format='jsonl')."
        ),
    ),
    (
        'not-utf-8',
        {'e.csv': b'question,answer\n\xff\xfe,2\n'},
        ['run', 'e.csv', *R, '--model', 'mine:f'],
        (
            'rolecall: e.csv:2: not valid utf-8: byte 0xff at position 0 of the line.\n'
            "  If the file has another encoding, name it: --encoding cp1252, or encoding='cp1252' in a config. If only some lines are wrong, skip and count such lines of a dataset: --on-error skip, or on_error='skip' in a config."
        ),
    ),
    (
        'rows-without-template',
        {'e.csv': 'a,b\n1,2\n'},
        ['run', 'e.csv', '--model', 'mine:f'],
        (
            'rolecall: e.csv\n'
            '  this is a file of rows, not a config, and none of its columns is called question.\n'
            "  Give a template for the rows: --template '{a} {b}'."
        ),
    ),
    (
        'answer-column-missing',
        {},
        ['run', 'rows.csv', '--answer', 'anser'],
        ("rolecall: --answer\n  no row has the column 'anser'.\n  Did you mean 'answer'?"),
    ),
    (
        'choices-do-not-fit',
        {},
        ['run', 'rows.csv', '--answer', 'answer', '--choices', 'A,B'],
        (
            'rolecall: --choices\n'
            "  the column 'answer' has answers that are not among the choices: '2', '4' (2 rows of the first 2).\n"
            '  Did you mean --choices 2,4?'
        ),
    ),
    (
        'one-choice',
        {},
        ['run', 'rows.csv', '--answer', 'answer', '--choices', 'A'],
        (
            "rolecall: --choices\n  'A' is not a list of choices. Write it like A,B,C,D.\n"
            '  `rolecall run --help` lists the options.'
        ),
    ),
    (
        'unknown-metric',
        {},
        ['run', 'rows.csv', '--answer', 'answer', '--metric', 'exct'],
        ("rolecall: --metric\n  unknown metric 'exct'.\n  Did you mean 'exact'?"),
    ),
    (
        'unknown-extractor',
        {},
        ['run', 'rows.csv', '--answer', 'answer', '--extract', 'first-optoin', '--model', 'mine:f'],
        (
            'rolecall: datasets[0].eval_cfg.pred_postprocessor\n'
            "  unknown postprocessor 'first-optoin'.\n"
            "  Did you mean 'first_option_postprocess'?"
        ),
    ),
    (
        'rows-that-are-misspelt',
        {},
        ['run', 'rows.cvs', '--template', '{q}'],
        (
            "rolecall: rows.cvs\n  no such file.\n  Did you mean 'rows.csv'? "
            'Files of rows end in .csv, .json, .jsonl, .lst, .ndjson, .parquet, .pq, .tsv, .txt.'
        ),
    ),
    (
        'template-for-a-config',
        {},
        ['run', 'good.py', '--template', '{q}'],
        ('rolecall: good.py\n  --template applies to a file of rows; a config defines its own.'),
    ),
    (
        'unknown-model',
        {},
        ['run', 'rows.csv', *R, '--model', 'smolm2'],
        ("rolecall: --model\n  unknown model 'smolm2'.\n  Did you mean 'smollm2'?"),
    ),
    (
        'model-without-its-service',
        {},
        ['run', 'rows.csv', *R, '--model', 'gpt-4o'],
        ("rolecall: --model\n  unknown model 'gpt-4o'.\n  Did you mean 'openai/gpt-4o'?"),
    ),
    (
        'missing-gguf',
        {},
        ['run', 'rows.csv', *R, '--model', 'nowhere.gguf'],
        ('rolecall: --model\n  no such file: nowhere.gguf.'),
    ),
    (
        'not-a-gguf',
        {'x.gguf': 'text'},
        ['run', 'rows.csv', *R, '--model', 'x.gguf'],
        ('rolecall: models[0].chat_template\n  x.gguf: offset 0: is not a GGUF file (it does not start with "GGUF")'),
    ),
    (
        'missing-function',
        {},
        ['run', 'rows.csv', *R, '--model', 'mine:g'],
        (
            'rolecall: --model\n'
            "  cannot import the model 'mine.g': 'DIR/mine.py' has no 'g'.\n"
            "  Known: 'f', 'boom', 'none'."
        ),
    ),
    (
        'not-a-function',
        {},
        ['run', 'rows.csv', *R, '--model', 'mine:x'],
        (
            'rolecall: models[0].type\n'
            '  int cannot answer: it has no generate().\n'
            '  Give a function, or a class with generate(): docs/plugins.md.'
        ),
    ),
    (
        'missing-module',
        {},
        ['run', 'rows.csv', *R, '--model', 'nothing_here:f'],
        (
            'rolecall: models[0].type\n'
            "  cannot import the model 'nothing_here.f': no module 'nothing_here' is installed.\n"
            '  Correct the path, or install the package.'
        ),
    ),
    (
        'function-raises',
        {},
        ['run', 'rows.csv', *R, '--model', 'mine:boom', '-q'],
        ('failed: boom: ValueError: no luck'),
    ),
    (
        'function-returns-none',
        {},
        ['run', 'rows.csv', *R, '--model', 'mine:none', '-q'],
        ('failed: none: the function returned NoneType, not a string or a Reply.'),
    ),
    (
        'no-key',
        {},
        ['run', 'rows.csv', *R, '--model', 'openai/gpt-4o', '-q'],
        (
            'rolecall: models[0]\n  gpt-4o: no key: set the environment variable OPENAI_API_KEY, or give the model a `key` (OnlineChatModule: `api_key`).\n'
            '  Nothing was sent or stored.'
        ),
    ),
    (
        'model-name-without-url',
        {},
        ['run', 'rows.csv', *R, '--model', 'mine:f', '--model-name', 'x'],
        ("rolecall: --model-name\n  'x' is for a model given by its URL, and none is."),
    ),
    (
        'closed-port',
        {},
        ['run', 'rows.csv', *R, '--model', 'http://127.0.0.1:9/v1', '--model-name', 'x', '-q'],
        ("rolecall: x: no answer after 3 attempts: http://127.0.0.1:9/v1, model 'x': the server is unreachable"),
    ),
    (
        'model-pattern-matches-nothing',
        {},
        ['view', 'good.py', '--model', 'qwen*'],
        ("rolecall: models\n  no model matches 'qwen*'.\n  Models of the config: m."),
    ),
    (
        'dataset-pattern-matches-nothing',
        {},
        ['view', 'good.py', '--dataset', 'qb'],
        ("rolecall: datasets\n  no dataset matches 'qb'.\n  Known: 'qa'."),
    ),
    (
        'set-without-value',
        {},
        ['view', 'good.py', '--set', 'models'],
        ("rolecall: --set\n  'models' is not PATH=VALUE.\n  Write it like models.*.temperature=0.2."),
    ),
    (
        'set-misspelt',
        {},
        ['view', 'good.py', '--set', 'models.m.temprature=0'],
        ("rolecall: --set models.m.temprature\n  unknown key 'temprature'.\n  Did you mean 'temperature'?"),
    ),
    (
        'unknown-retriever-option',
        {},
        ['view', 'good.py', '--shots', '1', '--retriever', 'bm52'],
        ("rolecall: --retriever\n  unknown retriever 'bm52'.\n  Did you mean 'bm25'?"),
    ),
    (
        'shots-without-answer',
        {},
        ['view', 'good.py', '--shots', '1'],
        (
            'rolecall: datasets[0].infer_cfg.prompt_template\n'
            '  the template shows no answer, so examples would have none.\n'
            '  Write {a} where it stands, or add an ice_template.'
        ),
    ),
    (
        'temperature-without-generation',
        {'c.py': PPL},
        ['view', 'c.py', '--temperature', '1'],
        ('rolecall: --temperature\n  no effect: every dataset is scored by log-probabilities, nothing is generated.'),
    ),
    (
        'report-of-nothing',
        {},
        ['report', 'nowhere'],
        ('rolecall: nowhere: no run found (run.sqlite is missing).\n  `rolecall runs list` lists run directories.'),
    ),
    (
        'run-into-a-file',
        {'out': 'x'},
        ['run', 'rows.csv', *R, '--model', 'mine:f', '--out', 'out', '-q'],
        ('rolecall: out: cannot be created: File exists.\n  Name another directory for the run with --out (out=…).'),
    ),
    (
        'compare-one-run',
        {},
        ['compare', 'nowhere'],
        ('rolecall: nowhere: no run found (run.sqlite is missing).\n  `rolecall runs list` lists run directories.'),
    ),
    (
        'unclosed-quote',
        {'e.csv': 'question,answer\n"1+1,2\n2+2,4\n'},
        ['run', 'e.csv', *R, '--model', 'mine:f'],
        (
            "rolecall: e.csv:2: a quoted cell begins here and never ends.\n  Correct the line, or skip and count such lines of a dataset: --on-error skip, or on_error='skip' in a config."
        ),
    ),
    (
        'column-twice',
        {'e.csv': 'question,question,answer\na,b,c\n'},
        ['run', 'e.csv', *R, '--model', 'mine:f'],
        ("rolecall: e.csv:1: duplicate column in the header: 'question'.\n  Give each column a name of its own."),
    ),
    (
        'spreadsheet-as-rows',
        {'e.xlsx': b'PK'},
        ['run', 'e.xlsx', *R, '--model', 'mine:f'],
        ('rolecall: e.xlsx\n  spreadsheets are not read.\n  Save the sheet as CSV (UTF-8).'),
    ),
    (
        'spreadsheet-as-config',
        {'e.xlsx': b'PK'},
        ['view', 'e.xlsx'],
        ('rolecall: e.xlsx\n  .xlsx files are not read.\n  Save the sheet as CSV (UTF-8).'),
    ),
    (
        'toml-config',
        {'c.toml': 'models = []'},
        ['run', 'c.toml'],
        ('rolecall: c.toml\n  .toml files are not read.\n  Configs end in .py, .yaml or .json.'),
    ),
    (
        'yaml-key-twice',
        {'c.yaml': 'models: [smollm2]\ndatasets: []\nmodels: [x]\n'},
        ['run', 'c.yaml'],
        ("rolecall: c.yaml:3\n  is not YAML: the key 'models' occurs twice."),
    ),
    (
        'json-key-twice',
        {'c.json': '{"models": [], "datasets": [{"infer_cfg": 1, "infer_cfg": 2}]}'},
        ['run', 'c.json'],
        ("rolecall: c.json\n  the key 'infer_cfg' occurs twice in one object.\n  Remove one of them."),
    ),
    (
        'yaml-with-tabs',
        {'c.yaml': 'models:\n\t- smollm2\n'},
        ['run', 'c.yaml'],
        (
            'rolecall: c.yaml:2\n  is not YAML: found character that cannot start any token.\n  Indent with spaces: YAML allows no tabs there.'
        ),
    ),
    (
        'yaml-list',
        {'c.yaml': '- a\n- b\n'},
        ['run', 'c.yaml'],
        ('rolecall: c.yaml\n  expected names and values, found list.\n  Write models: […] and datasets: […].'),
    ),
    (
        'unknown-option',
        {},
        ['run', 'good.py', '--resume'],
        ("rolecall: unknown option: --resume\n  Did you mean '--rerun'?\n  `rolecall run --help` lists the options."),
    ),
    (
        'limit-in-words',
        {},
        ['run', 'good.py', '--limit', 'two'],
        (
            "rolecall: --limit\n  expected a whole number of at least 1, got 'two'.\n  `rolecall run --help` lists the options."
        ),
    ),
    (
        'folder-without-a-model',
        {},
        ['run', 'rows.csv', *R, '--model', 'hf:'],
        (
            'rolecall: --model\n  . has no config.json: it is not the folder of a Hugging Face model.\n  Write hf:FOLDER, or hf:ORG/NAME for one on the hub.'
        ),
    ),
    (
        'damaged-run',
        {'r/run.sqlite': 'garbage'},
        ['report', 'r'],
        ('rolecall: r/run.sqlite: cannot be read: file is not a database.\n  `rolecall doctor r` says more.'),
    ),
    (
        'nested-answer-misspelt',
        {'e.jsonl': '{"question": "a", "target": {"text": "b"}}\n'},
        ['run', 'e.jsonl', '--answer', 'target.txt', '--model', 'mine:f'],
        ("rolecall: --answer\n  no row has the column 'target.txt'.\n  Did you mean 'target.text'?"),
    ),
]


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in (name for source in SOURCES.values() for name in source.variables):
        monkeypatch.delenv(variable, raising=False)


@pytest.mark.parametrize(('name', 'files', 'arguments', 'message'), CASES, ids=[case[0] for case in CASES])
def test_bad_input_is_answered_with_what_is_wrong_and_what_to_do(
    name: str,
    files: dict[str, str | bytes],
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for path, content in {**FILES, **files}.items():
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).write_bytes(content if isinstance(content, bytes) else content.encode())
    monkeypatch.setattr('sys.argv', ['rolecall', *arguments])
    try:
        code = main(arguments)
    except SystemExit as stopped:  # argparse
        code = int(str(stopped.code))
    told = capsys.readouterr().err.replace(str(tmp_path.resolve()), 'DIR').replace(str(tmp_path), 'DIR')
    assert 'Traceback' not in told
    if name in FAILING:
        assert code == 1
        assert message in told
    else:
        assert code == 2
        assert told.rstrip('\n') == message


def test_there_are_at_least_seventy_eight_kinds() -> None:
    assert len({case[0] for case in CASES}) == len(CASES) >= 78
