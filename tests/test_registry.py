"""The registry: an object is itself, a path is imported, a bare name is a built-in or a plugin."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from rolecall.errors import ConfigError
from rolecall.registry import Registry, part_name
from rolecall.sources.config.reference import Reference

NUMBERS: Registry[type] = Registry(
    'number type', {'Fraction': 'fractions:Fraction', 'Decimal': 'decimal:Decimal'}, spelling=str.lower
)


class OpenCompassClass:
    pass


OpenCompassClass.__module__ = 'opencompass.numbers'
OpenCompassClass.__name__ = 'Fraction'


def install(folder: Path, package: str, *, version: str = '1.0', points: dict[str, str]) -> None:
    """An installed distribution: its metadata, with entry points in the group of NUMBERS."""
    info = folder / f'{package}-{version}.dist-info'
    info.mkdir(parents=True)
    (info / 'METADATA').write_text(f'Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n')
    listed = '\n'.join(f'{name} = {path}' for name, path in points.items())
    (info / 'entry_points.txt').write_text(f'[rolecall.number_types]\n{listed}\n')


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / 'site'
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    return folder


@pytest.mark.parametrize(
    ('given', 'value', 'origin'),
    [
        ('Fraction', Fraction, 'rolecall'),
        ('fraction', Fraction, 'rolecall'),
        ('opencompass.numbers.Fraction', Fraction, 'rolecall'),
        (Reference('ais_bench.numbers.Fraction'), Fraction, 'rolecall'),
        (OpenCompassClass, Fraction, 'rolecall'),
        ('numbers.Rational', __import__('numbers').Rational, 'numbers.Rational'),
        ('numbers:Rational', __import__('numbers').Rational, 'numbers.Rational'),
        (Reference('numbers.Rational'), __import__('numbers').Rational, 'numbers.Rational'),
        (int, int, ''),
        (3, 3, ''),
    ],
    ids=str,
)
def test_every_way_to_name_a_part(given: Any, value: object, origin: str) -> None:
    part = NUMBERS.find(given)
    assert (part.value, part.origin, part.builtin) == (value, origin, origin == 'rolecall')


def test_a_class_called_like_a_builtin_stands_for_itself() -> None:
    own = type('Fraction', (), {})
    assert NUMBERS.find(own).value is own
    assert NUMBERS.builtin_name(own) is None


def test_a_path_leads_to_a_file_beside_the_config_first(tmp_path: Path) -> None:
    (tmp_path / 'numbers.py').write_text('from helper import Rational\n')
    (tmp_path / 'helper.py').write_text("Rational = 'beside'\n")
    assert NUMBERS.find('numbers.Rational', base=tmp_path).value == 'beside'
    sys.modules.pop('helper')


@pytest.mark.parametrize(
    ('given', 'expected'),
    [
        ('Fractoin', r"unknown number type 'Fractoin'\.\n  Did you mean 'Fraction'\?"),
        ('zzz', r"unknown number type 'zzz'\.\n  Known: 'Fraction', 'Decimal'\. An object, a class or a path"),
        ('opencompass.numbers.Quaternion', "unsupported number type 'opencompass.numbers.Quaternion'"),
        ('nowhere.Fraction', r"no module 'nowhere' is installed\.\n  Write 'Fraction' for the built-in of that name"),
        ('nowhere.Odd', r"no module 'nowhere' is installed\.\n  Correct the path, or install the package"),
        ('numbers.Rationel', r"'numbers' has no 'Rationel'\.\n  Did you mean 'Rational'\?"),
        ('a..b', r"cannot import the number type 'a\.\.b'"),
        ('', 'no number type is named'),
        (None, 'no number type is named'),
    ],
)
def test_what_cannot_be_found_says_why_and_suggests(given: Any, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected) as caught:
        NUMBERS.find(given, where='here.type')
    assert [problem.where for problem in caught.value.problems] == ['here.type']


def test_an_installed_package_adds_parts(site: Path) -> None:
    (site / 'acme.py').write_text('class Quaternion: pass\n')
    install(site, 'acme_numbers', points={'Quaternion': 'acme:Quaternion'})
    part = NUMBERS.find('Quaternion')
    assert (part.value.__name__, part.origin) == ('Quaternion', 'acme_numbers 1.0')
    assert [(plugin.name, plugin.path) for plugin in NUMBERS.plugins()] == [('Quaternion', 'acme:Quaternion')]
    with pytest.raises(ConfigError, match="Did you mean 'Quaternion'?"):
        NUMBERS.find('Quaternoin')


def test_a_name_that_two_packages_offer_is_refused(site: Path) -> None:
    install(site, 'one', points={'Octonion': 'one:Octonion'})
    install(site, 'two', points={'Octonion': 'two:Octonion'})
    with pytest.raises(
        ConfigError, match=r"two plugins offer the number type 'Octonion': one:Octonion \(one 1.0\) and two:Octonion"
    ):
        NUMBERS.find('Octonion')


@pytest.mark.parametrize('source', ['import nothing_like_this', 'raise SystemExit', 'x ='])
def test_a_plugin_that_cannot_be_loaded_is_a_problem_with_its_package(source: str, site: Path) -> None:
    (site / 'acme_broken.py').write_text(source)
    install(site, 'broken_numbers', points={'Sedenion': 'acme_broken:Sedenion'})
    with pytest.raises(
        ConfigError, match=r"loading the plugin 'Sedenion' \(acme_broken:Sedenion, broken_numbers 1.0\) raised"
    ):
        NUMBERS.find('Sedenion')


def test_names_are_short_however_a_part_is_given() -> None:
    given = ('a.b.C', 'C', Reference('x.C'), type('C', (), {}), type('C', (), {})())
    assert [part_name(one) for one in given] == ['C'] * 5


def test_help_and_builtins_do_not_read_entry_points() -> None:
    program = (
        'import contextlib, io, sys; from rolecall.ui.cli.main import main; from rolecall.sources.retrievers import build_retriever\n'
        "build_retriever({'type': 'ZeroRetriever'})\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit): main(['--help'])\n"
        "print('importlib.metadata' in sys.modules)"
    )
    done = subprocess.run([sys.executable, '-c', program], capture_output=True, text=True, check=True)
    assert done.stdout == 'False\n'
