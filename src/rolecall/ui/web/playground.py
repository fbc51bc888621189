"""The page without a server: pasted rows as a config, and the page's routes on it.

A web worker calls `Playground.answer` with the link, which holds everything that was pasted.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from rolecall.core.render.meta import META_TEMPLATES
from rolecall.errors import ConfigError, Problem, RolecallError, did_you_mean
from rolecall.experiment.experiment import Experiment
from rolecall.experiment.opening.source_options import RowsOptions, SourceOptions
from rolecall.experiment.opening.written_configs import save_config
from rolecall.experiment.previews.blocks import ascii_json
from rolecall.models.model_names import ALIASES, SOURCES, find_service
from rolecall.ui.views.chinese import to_chinese
from rolecall.ui.web.routes import POST_ROUTES, answer_route, check_body
from rolecall.ui.web.workspace import Workspace

_LARGEST = 8 * 1024 * 1024
_FAMILIES = tuple(name for name in META_TEMPLATES if not name.startswith('api'))
_SERVICES = tuple(f'{name}/{source.model}' for name, source in SOURCES.items() if source.model)


@dataclass(frozen=True, slots=True)
class Pasted:
    """What the playground's form holds; at first an example."""

    rows: str = (
        '{"question": "Which gas do plants take in?", "A": "oxygen", "B": "carbon dioxide", "answer": "B"}\n'
        '{"question": "What stands in {braces}?", "A": "a column", "B": "text", "answer": "A"}\n'
    )
    template: str = 'Question: {question}\nA. {A}\nB. {B}\nAnswer with one letter.'
    answer: str = 'answer'
    choices: str = ''
    models: str = 'chatml, llama3, openai/gpt-4o-mini'

    @classmethod
    def unpack(cls, link: str) -> Pasted:
        """The form of a link: JSON, deflated, in URL-safe base64. An empty link is the example.

        >>> Pasted.unpack('q1Yqyi8vVrJSKozJM9Q2VKoFAA').rows
        'q\\n1+1'
        """
        try:
            packed = base64.urlsafe_b64decode(link + '=' * (-len(link) % 4))
            text = zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, _LARGEST) if link else b'{}'
            values = json.loads(text)
            return cls(**{field.name: str(values[field.name]) for field in fields(cls) if field.name in values})
        except (ValueError, TypeError, zlib.error) as error:
            what = 'not a link of the playground, or cut off.'
            raise ConfigError(Problem('link', what, 'Copy the whole link.')) from error

    def write(self, folder: Path) -> Path:
        """The rows as a file, and the config that asks about them."""
        text = self.rows.lstrip()
        table = '.tsv' if '\t' in text.partition('\n')[0] else '.csv'
        rows = folder / ('rows' + {'{': '.jsonl', '[': '.json'}.get(text[:1], table))
        config = folder / 'playground.yaml'
        config.unlink(missing_ok=True)
        rows.write_text(self.rows, encoding='utf-8')
        names = dict.fromkeys(name.strip() for name in self.models.split(',') if name.strip())
        rows_options = RowsOptions(
            template=self.template or None, answer=self.answer.strip() or None, choices=self.choices.strip() or ()
        )
        options = SourceOptions(models=tuple(map(_entry_of, names)), rows=rows_options)
        experiment = Experiment.open(rows, options)
        places = {*(task.where for task in experiment.tasks), *(model.where for model in experiment.models)}
        save_config(experiment.config, config, places=places)
        return config


def _entry_of(name: str) -> str | Mapping[str, Any]:
    """A model by name: a family, which receives text in its format, or a model of a service. Others have files or code.

    >>> _entry_of('gpt-4o')
    Traceback (most recent call last):
    rolecall.errors.ConfigError: models
      'gpt-4o' is neither a family nor a model of a service.
      Did you mean 'openai/gpt-4o'?
    """
    if name in _FAMILIES:
        return {'abbr': name, 'type': 'HuggingFaceCausalLM', 'path': 'none', 'meta_template': name}
    service, slash, _ = name.partition('/')
    if slash and (service.lower() in SOURCES or service.lower() in ALIASES):
        return name
    likely = find_service(name)
    remedy = f"Did you mean '{likely}/{name}'?" if likely else did_you_mean(name, (*_FAMILIES, *_SERVICES))
    raise ConfigError(Problem('models', f'{name!r:.60} is neither a family nor a model of a service.', remedy))


class Playground:
    """Answers what the page asks for, from what a link holds."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._link: str | None = None
        self._workspace = Workspace([])
        self._error = ''

    def answer(self, link: str, path: str, body: str, chinese: bool = False) -> list[Any]:
        """The status and the JSON of an answer, as the server would send them."""
        name, _, query = path.removeprefix('api/').partition('?')
        if link != self._link:
            self._open(link)
        try:
            if self._error and name != 'session':
                raise RolecallError(self._error)
            asked = check_body(json.loads(body)) if name in POST_ROUTES else dict(parse_qsl(query))
            answer = answer_route(self._workspace, name, asked, chinese=chinese)
        except RolecallError as error:
            return [422, ascii_json({'error': to_chinese(str(error)) if chinese else str(error)})]
        if name == 'session':
            answer['playground'] = self._describe(link, chinese)
        return [200, ascii_json(answer)]

    def _open(self, link: str) -> None:
        self._link, self._error = link, ''
        try:
            self._workspace = Workspace([Pasted.unpack(link).write(self._folder)])
            self._workspace.document(0)
        except RolecallError as error:
            self._workspace, self._error = Workspace([]), str(error).replace(f'{self._folder}/', '')

    def _describe(self, link: str, chinese: bool) -> dict[str, Any]:
        """What the form shows: its values or what is wrong with them, names of models, and the config."""
        try:
            pasted = Pasted.unpack(link)
        except RolecallError:
            pasted = Pasted()
        config = self._folder / 'playground.yaml'
        columns = [] if self._error else self._workspace.document(0).columns('rows')
        return {
            'link': link,
            'pasted': asdict(pasted),
            'error': to_chinese(self._error) if chinese else self._error,
            'columns': columns,
            'names': [*_FAMILIES, *_SERVICES],
            'config': config.read_text('utf-8') if not self._error else '',
        }
