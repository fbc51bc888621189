"""Dataclasses whose methods are made when they are first used behave as the standard library's."""

import copy
import dataclasses
import inspect
import pickle
from typing import Any

import pytest

from rolecall import lazy_dataclasses


def make_classes(dataclass: Any) -> list[type]:
    @dataclass(frozen=True, slots=True)
    class Frozen:
        """Some fields."""

        x: int
        y: str = 'q'
        z: list[int] = dataclasses.field(default_factory=list)
        w: int = dataclasses.field(default=3, compare=False)

    @dataclass(frozen=True, slots=True)
    class Below(Frozen):
        """A subclass, which has other slots."""

        k: int = 5

        def __post_init__(self) -> None:
            object.__setattr__(self, 'k', self.k + 1)

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Named:
        """Fields given by name, one of them that of a built-in function."""

        x: int = 0
        y: int = dataclasses.field(default=2, repr=False)
        type: str = 'plain'

    @dataclass(slots=True)
    class Mutable:
        """Not frozen, with fields that are not given."""

        x: int = 1
        rows: list[int] = dataclasses.field(init=False, default_factory=list)
        left: int = dataclasses.field(init=False, default=7)

    @dataclass(frozen=True)
    class OwnMethods:
        """Methods that are written stay."""

        x: int = 1

        def __hash__(self) -> int:
            return 5

        def __repr__(self) -> str:
            return 'own'

    @dataclass(eq=False)
    class Identical:
        """Compared by identity."""

        x: int = 1

    @dataclass(frozen=True, slots=True)
    class LikeFunctions:
        """Fields with the names of built-in functions."""

        x: int
        type: str = 'a'
        object: int = 2

    classes = [Frozen, Below, Named, Mutable, OwnMethods, Identical, LikeFunctions]
    for cls in classes:
        cls.__qualname__ = cls.__name__
    return classes


OURS, THEIRS = (make_classes(module.dataclass) for module in (lazy_dataclasses, dataclasses))
ARGUMENTS = [(1,), (1,), (), (), (), (), (1,)]
USES = {
    'repr': lambda cls, *values: cls(*values),
    'signature': lambda cls, *values: inspect.signature(cls),
    'equality': lambda cls, *values: (cls(*values) == cls(*values), cls(*values) == 1),
    'hash': lambda cls, *values: hash(cls(*values)) == hash(cls(*values)),
    'hash of a list': lambda cls, *values: hash(cls(*values)) if cls.__hash__ is None else 'hashable',
    'unknown argument': lambda cls, *values: cls(*values, unknown=1),
    'too many arguments': lambda cls, *values: cls(*range(9)),
    'assignment': lambda cls, *values: setattr(cls(*values), 'x', 2),
    'deletion': lambda cls, *values: delattr(cls(*values), 'x'),
    'replace': lambda cls, *values: dataclasses.replace(cls(*values)),
    'fields': lambda cls, *values: [field.name for field in dataclasses.fields(cls)],
    'asdict': lambda cls, *values: dataclasses.asdict(cls(*values)),
    'copy': lambda cls, *values: copy.copy(cls(*values)),
    'deepcopy': lambda cls, *values: copy.deepcopy(cls(*values)),
    'slots': lambda cls, *values: (hasattr(cls(*values), '__dict__'), getattr(cls, '__slots__', None)),
    'patterns': lambda cls, *values: cls.__match_args__,
    'flags': lambda cls, *values: cls.__dataclass_params__,
}


def outcome_of(use: Any, cls: type, values: tuple[Any, ...]) -> str:
    try:
        return repr(use(cls, *values))
    except Exception as error:
        return type(error).__name__


@pytest.mark.parametrize('use', USES)
def test_a_dataclass_does_what_the_standard_one_does(use: str) -> None:
    for ours, theirs, values in zip(OURS, THEIRS, ARGUMENTS, strict=True):
        assert outcome_of(USES[use], ours, values) == outcome_of(USES[use], theirs, values), ours.__name__


@lazy_dataclasses.dataclass(frozen=True, slots=True)
class Kept:
    """At module level, so that it can be pickled."""

    x: int
    rows: tuple[int, ...] = (1, 2)
    name: str = ''


def test_frozen_objects_with_slots_are_pickled() -> None:
    assert pickle.loads(pickle.dumps(Kept(3, name='a'))) == Kept(3, name='a')


def test_a_subclass_that_is_no_dataclass_has_attributes_of_its_own() -> None:
    class Plain(Kept):
        pass

    plain: Any = Plain(1)
    plain.further = 3
    with pytest.raises(dataclasses.FrozenInstanceError):
        plain.x = 2
    assert (plain.x, plain.further) == (1, 3)
