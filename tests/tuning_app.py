"""A small application to tune: a prompter, rows with answers, and a model's folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from chat_template_corpus import CHATML
from small_models import make_model, make_tokenizer

APP = "from rolecall import ChatPrompter\nbot = ChatPrompter('Answer.', system='')\n"
FACTS = {'Sky?': 'blue', 'Grass?': 'green', 'Snow?': 'white', 'Coal?': 'black'}


def make_app(tmp_path: Path) -> Path:
    """A folder with a prompter, rows with answers, and a model's folder without weights."""
    (tmp_path / 'app.py').write_text(APP)
    rows = [{'input': question, 'answer': answer} for question, answer in FACTS.items()]
    (tmp_path / 'rows.jsonl').write_text(''.join(f'{json.dumps(row)}\n' for row in rows))
    base = tmp_path / 'base'
    base.mkdir()
    make_tokenizer(base, bos=True)
    (base / 'chat_template.jinja').write_text(CHATML.source)
    (base / 'config.json').write_text('{"model_type": "llama", "max_position_embeddings": 128}')
    return tmp_path


def command(app: Path, *given: Any, model: str | None = None, rows: str = 'rows.jsonl') -> list[str]:
    source = ['model', 'tune', model or str(app / 'base'), str(app / rows), '--prompter', f'{app / "app.py"}:bot']
    return [*source, '--answer-column', 'answer', '-o', str(app / 'tuned'), *map(str, given)]


def make_base(app: Path, kind: str = 'llama') -> Path:
    base = app / 'base'
    make_model(base, kind, spread=0.05)
    (base / 'chat_template.jinja').write_text(CHATML.source)
    return base
