"""The folder of a tuning: what it was asked, its checkpoint, its log, and at the end the model."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rolecall.errors import DataError

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
