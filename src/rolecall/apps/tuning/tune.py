"""`tune` tells a whole tuning: rows are worded and checked, then weights are loaded, trained and saved.

Everything that can be wrong with the rows, the model's name or the output folder is found before torch is imported.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from rolecall.apps.sft.prompter_examples import Columns, PrompterSide, prompter_examples
from rolecall.apps.sft.training_programs import Aim
from rolecall.apps.tuning.sequences import TrainingRows, read_training_rows
from rolecall.apps.tuning.tune_settings import TuneSettings
from rolecall.core.prompters import Prompter
from rolecall.errors import ConfigError, DataError, Problem, import_extra
from rolecall.experiment.opening.model_entries import open_model_entry
from rolecall.models.protocol import ModelError
from rolecall.models.tokenizers.tokenizer import model_folder
from rolecall.models.transformers.entry import FilesModel, read_transformers_entry
from rolecall.models.transformers.weights import WeightsSource, digest_model_files
from rolecall.registry import bare_name
from rolecall.sources.datasets import Row, open_file
from rolecall.strings import count_noun

_TYPES = ('HuggingFace', 'HuggingFaceCausalLM', 'HuggingFaceBaseModel', 'HuggingFacewithChatTemplate')
_QUANTISED = ('LlamaCpp', 'Embedded', 'smollm2')
_ORIGINALS = {'smollm2': 'hf:HuggingFaceTB/SmolLM2-135M-Instruct'}


@dataclass(frozen=True, slots=True)
class TuneResult:
    """A finished tuning."""

    folder: Path
    steps: int
    loss: float
    """Of the last updates."""
    held_out_before: float | None
    held_out_loss: float | None


class TuneListener:
    """Hears how a tuning goes; this one does nothing."""

    def on_message(self, message: str) -> None:
        """Something that a person should know."""

    def on_start(self, steps: int, done: int) -> None:
        """Training starts, or resumes after `done` updates."""

    def on_step(self, done: int, loss: float, tokens: int) -> None:
        """An update."""

    def on_held_out(self, done: int, loss: float) -> None:
        """The loss on the rows that are held out."""

    def on_end(self) -> None:
        """Training is over, or was interrupted."""


def tune(
    entry: Mapping[str, Any],
    rows: str | Path | Iterable[Row],
    prompter: Prompter,
    columns: Columns,
    output: str | Path,
    *,
    settings: TuneSettings | None = None,
    aim: Aim | None = None,
    limit: int | None = None,
    skip: bool = False,
    overwrite: bool = False,
    listener: TuneListener | None = None,
) -> TuneResult:
    """Tune the model of an entry on rows with answers, and write the tuned model to a folder.

    The same call after an interruption resumes at the last checkpoint, and ends with the same weights.
    """
    settings, listener = settings or TuneSettings(), listener or TuneListener()
    output = Path(output).expanduser()
    _check_type(entry)
    OutputFolder.check(output, overwrite=overwrite)
    base = _find_files(str(entry['path']))
    if output.resolve() == base.resolve():
        raise DataError(f'{output}: holds the model itself. Choose another output folder.')
    model_entry = open_model_entry({**entry, 'path': str(base)})
    files: FilesModel[Any] = FilesModel(read_transformers_entry(model_entry.entry, name=model_entry.abbr), '')
    side = PrompterSide.for_model(prompter, model_entry)
    examples = prompter_examples(side, _open_rows(rows), columns, form='tokens', aim=aim, limit=limit)
    encoder = side.encoder(files.tokenizer or files.source.own_tokenizer())
    longest = min(filter(None, (settings.max_seq_len, files.max_seq_len)), default=None)
    prepared = read_training_rows(examples, encoder, settings, limit=longest, skip=skip)
    for remark in prepared.remarks():
        listener.on_message(remark)
    for package in ('torch', 'transformers', *(['peft'] if settings.lora else [])):
        _check_installed(package)
    about = {'settings': settings.deciding, 'rows': prepared.digest, 'model': digest_model_files(base)}
    folder = OutputFolder(output, about)
    resumes = folder.open(overwrite=overwrite)
    return _train(folder, base, files.source, prepared, settings, listener, resumes=resumes)


def _train(
    folder: OutputFolder,
    base: Path,
    source: WeightsSource,
    rows: TrainingRows,
    settings: TuneSettings,
    listener: TuneListener,
    *,
    resumes: bool,
) -> TuneResult:
    from rolecall.apps.tuning.trainer import Trainer, count_steps
    from rolecall.models.transformers.weights import import_hf_package

    torch = import_hf_package('torch')
    dtype = settings.dtype or (None if settings.lora else 'float32')  # small updates of all weights need float32
    loaded = replace(source, device=settings.device or source.device, dtype=dtype or source.dtype).load()
    closing = rows.closing_token(loaded.tokenizer.special_tokens.values())
    trainer = Trainer(loaded, rows.train, settings)
    log: list[dict[str, Any]] = []
    if resumes:
        state = folder.load_checkpoint(torch)
        log = json.loads(state['log'])
        trainer.resume(state)
        listener.on_message(f'resuming after {count_noun(trainer.done, "update")}.')
    steps = count_steps(len(rows.train), settings)

    def measure() -> None:
        if rows.held_out and not any(line['step'] == trainer.done and 'held_out_loss' in line for line in log):
            loss = trainer.held_out_loss(rows.held_out)
            if not math.isfinite(loss):
                raise ModelError(f'the held-out loss is not a number after {count_noun(trainer.done, "update")}.')
            log.append({'step': trainer.done, 'held_out_loss': loss})
            listener.on_held_out(trainer.done, loss)

    def save() -> None:
        folder.save_checkpoint(torch, {**trainer.state(), 'log': json.dumps(log)}, log)

    per_epoch = math.ceil(len(rows.train) / settings.batch_size)
    tokens = 0
    listener.on_start(steps, trainer.done)
    try:
        if trainer.done == 0:
            measure()
        for step in trainer.steps():
            tokens += step.tokens
            log.append({'step': step.number, 'loss': step.loss, 'tokens': step.tokens})
            listener.on_step(step.number, step.loss, tokens)
            if step.number == steps or step.number % per_epoch == 0:
                measure()
            if step.number == steps or step.number % settings.save_every == 0:
                save()
        new_eos = () if closing is None or closing in loaded.eos_ids else (closing, *loaded.eos_ids)
        folder.finish(partial(trainer.save_model, dtype=_file_dtype(base)), base, eos_ids=new_eos)
        if new_eos:
            token = loaded.tokenizer.decode([new_eos[0]])
            listener.on_message(f'answers end with {token}: added to the end-of-sequence tokens of the model.')
    except KeyboardInterrupt:  # not saved here: an update may be half done
        saved = trainer.done // settings.save_every * settings.save_every
        listener.on_message(f'interrupted: the same command resumes after {count_noun(saved, "update")}.')
        raise
    finally:
        listener.on_end()
    folder.write_log(log)
    losses = [line['loss'] for line in log if 'loss' in line]
    held_out = [line['held_out_loss'] for line in log if 'held_out_loss' in line] or [None]
    last = losses[-max(1, len(losses) // 10) :]
    return TuneResult(folder.path, len(losses), sum(last) / len(last), held_out[0], held_out[-1])


def _check_type(entry: Mapping[str, Any]) -> None:
    """Only weights that `transformers` loads can be trained."""
    kind, path = bare_name(entry.get('type')), str(entry.get('path') or '')
    if kind in _QUANTISED or path.endswith('.gguf'):
        original = _ORIGINALS.get(path, 'hf:FOLDER or hf:ORG/NAME')
        what = f'{path} is a GGUF file, whose quantised weights cannot be trained.'
        raise ConfigError(Problem('model', what, f'Give the original model: {original}.'))
    if kind not in _TYPES or not path:
        what = f'{entry.get("abbr") or path} is not a local Hugging Face model, so its weights cannot be trained here.'
        remedy = 'Give hf:FOLDER or hf:ORG/NAME; for a service, write its training file with `rolecall export sft`.'
        raise ConfigError(Problem('model', what, remedy))


def _check_installed(package: str) -> None:
    """Raise if a package is missing, without importing it: that takes seconds."""
    from importlib.util import find_spec

    if find_spec(package) is None:
        import_extra(package, extra='tune', purpose='to tune a model')


def _find_files(path: str) -> Path:
    """The folder of a model; a hub model that is not on this machine is downloaded."""
    folder = model_folder(path)
    if folder is not None:
        if not (folder / 'config.json').is_file():
            raise ConfigError(Problem('model', f'{folder} has no config.json: it is not a Hugging Face model.'))
        return folder
    if os.path.isabs(path) or path.startswith(('.', '~')) or path.count('/') > 1:
        raise ConfigError(Problem('model', f'no such folder: {path}.'))
    hub = import_extra('huggingface_hub', extra='tune', purpose='to download a model')
    try:
        return Path(hub.snapshot_download(path))
    except Exception as error:  # the network, the hub, the disk: each has exceptions of its own
        raise ModelError(f'{path}: cannot be downloaded: {str(error).splitlines()[0]}') from error


def _open_rows(rows: str | Path | Iterable[Row]) -> Iterable[Row]:
    opened = open_file(rows) if isinstance(rows, str | Path) else rows
    if not isinstance(opened, Iterable) or isinstance(opened, Mapping):
        raise DataError(f'rows must be a file or a list of mappings, got {rows!r:.60}.')
    return opened


def _file_dtype(base: Path) -> str | None:
    """The dtype of a model's files."""
    try:
        config = json.loads((base / 'config.json').read_text(encoding='utf-8'))
    except (OSError, ValueError) as error:
        raise DataError(f'{base / "config.json"}: cannot be read: {error}.') from error
    named = config.get('dtype') or config.get('torch_dtype')
    return str(named) if named else None


_ABOUT, _CHECKPOINT, _LOG, _FINAL = 'tuning.json', 'checkpoint.pt', 'tuning-log.jsonl', '.final'
_WEIGHTS = ('.safetensors', '.bin', '.pt', '.pth', '.gguf', '.msgpack', '.h5', '.onnx', '.index.json')


@dataclass(frozen=True, slots=True)
class OutputFolder:
    """Where a tuned model goes. `about` says what decides the result: settings, rows and weights."""

    path: Path
    about: Mapping[str, Any]

    @staticmethod
    def check(path: Path, *, overwrite: bool) -> None:
        """Raise if the folder holds something else, or a finished tuning that is not to be replaced."""
        if not path.exists() or (path.is_dir() and not any(path.iterdir())):
            return
        earlier = _read_about(path)
        if earlier is None:
            raise DataError(f'{path}: exists, and is not a tuning of rolecall. Choose another output folder.')
        if earlier.get('finished') and not overwrite:
            raise DataError(f'{path}: holds a finished tuning. Choose another folder, or replace it with --overwrite.')

    def open(self, *, overwrite: bool) -> bool:
        """Prepare the folder; True if an unfinished tuning of the same is to be resumed."""
        earlier = None if overwrite else _read_about(self.path)
        if earlier is not None and (self.path / _CHECKPOINT).is_file():
            different = [name for name, value in self.about.items() if earlier.get('about', {}).get(name) != value]
            if different:
                raise DataError(
                    f'{self.path}: holds an unfinished tuning with other {_describe(self.about, earlier, different)}. '
                    'Continue it with the same, or start again with --overwrite.'
                )
            return True
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            for old in self.path.iterdir():  # the folder itself stays: it may be a link, or the working directory
                shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()
        except OSError as error:
            raise DataError(f'{self.path}: cannot be written: {error.strerror or error}.') from error
        self._write_about(finished=False)
        return False

    def save_checkpoint(self, torch: Any, state: Mapping[str, Any], log: Sequence[Mapping[str, Any]]) -> None:
        """Replace the checkpoint: the old one or the new one is there, whole, whatever happens."""
        fresh = self.path / f'{_CHECKPOINT}.part'
        try:
            with fresh.open('wb') as file:
                torch.save(dict(state), file)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self.path / _CHECKPOINT)
            self.write_log(log)
        except (OSError, RuntimeError) as error:  # torch raises the latter on a full disk
            raise DataError(f'{fresh}: cannot be written: {error}.') from error

    def load_checkpoint(self, torch: Any) -> dict[str, Any]:
        """The state that was saved last."""
        try:
            state: dict[str, Any] = torch.load(self.path / _CHECKPOINT, map_location='cpu', weights_only=True)
        except Exception as error:  # torch raises what its unpickler raises
            what = f'{self.path / _CHECKPOINT}: cannot be read: {error}.'
            raise DataError(f'{what} Start again with --overwrite.') from error
        return state

    def write_log(self, log: Sequence[Mapping[str, Any]]) -> None:
        """Write the losses so far, one line for each update or measurement."""
        (self.path / _LOG).write_text(''.join(f'{json.dumps(line)}\n' for line in log), encoding='utf-8')

    def finish(self, save: Any, base: Path, *, eos_ids: Sequence[int] = ()) -> None:
        """Write the model: `save` writes weights and config into a folder, the other files are those of `base`.

        `eos_ids`, if any, are the tokens at which the model has learnt to stop.
        """
        final = self.path / _FINAL
        shutil.rmtree(final, ignore_errors=True)
        final.mkdir()
        save(final)
        for file in base.iterdir():
            if file.is_file() and not file.name.endswith(_WEIGHTS) and file.name not in ('config.json', _ABOUT, _LOG):
                shutil.copyfile(file, final / file.name)
        if eos_ids:
            generation = final / 'generation_config.json'
            settings = json.loads(generation.read_text(encoding='utf-8')) if generation.is_file() else {}
            generation.write_text(json.dumps({**settings, 'eos_token_id': list(eos_ids)}, indent=2), encoding='utf-8')
        for file in final.iterdir():
            place = self.path / file.name
            if place.is_dir():
                shutil.rmtree(place)
            file.replace(place)
        final.rmdir()
        self._write_about(finished=True)
        (self.path / _CHECKPOINT).unlink(missing_ok=True)

    def _write_about(self, *, finished: bool) -> None:
        fresh = self.path / f'.{_ABOUT}.part'
        fresh.write_text(json.dumps({'finished': finished, 'about': self.about}, indent=2), encoding='utf-8')
        fresh.replace(self.path / _ABOUT)


def _read_about(path: Path) -> dict[str, Any] | None:
    try:
        about_file = json.loads((path / _ABOUT).read_text(encoding='utf-8'))
    except (OSError, ValueError):
        return None
    return about_file if isinstance(about_file, dict) else None


def _describe(about: Mapping[str, Any], earlier: Mapping[str, Any], different: Sequence[str]) -> str:
    if different != ['settings']:
        return ' and '.join(different)
    before = earlier['about'].get('settings') or {}
    changed = [name for name, value in about['settings'].items() if before.get(name) != value]
    return 'settings (' + ', '.join(f'{name}={before.get(name)}' for name in changed) + ')'
