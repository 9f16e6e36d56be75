"""Pickles read as what they are, a list of instructions, by a machine that knows the harmless ones alone.

No unpickler is involved: a name in a pickle is never looked up, imported or called. What a named thing means is decided
by the caller's table; everything else is refused. (Python's own unpickler would run what it is told to, and its memory
follows what a file claims.)
"""

from __future__ import annotations

import io
import pickletools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from recollect.loading.plain import NotPlainError


@dataclass(frozen=True)
class Name:
    """Something a pickle refers to, such as ``torch._utils._rebuild_tensor_v2``."""

    path: str


_NUMBERS = ("BININT", "BININT1", "BININT2", "LONG1", "INT", "LONG", "BINFLOAT", "FLOAT")
_LITERALS = frozenset({*_NUMBERS, "BINUNICODE", "SHORT_BINUNICODE", "UNICODE"})
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY: dict[str, Callable[[], Any]] = {"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_IGNORED = frozenset({"PROTO", "FRAME", "STOP"})


@dataclass
class _Machine:
    call: Callable[[Name, tuple], object]
    fetch: Callable[[object], object]
    stack: list[Any] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)

    def step(self, code: str, argument: Any) -> None:
        if code in _IGNORED:
            return
        if code in _LITERALS:
            self.stack.append(argument)
        elif code in _CONSTANTS:
            self.stack.append(_CONSTANTS[code])
        elif code in _EMPTY:
            self.stack.append(_EMPTY[code]())
        elif code in _TUPLES:
            self.stack.append(self._last(_TUPLES[code]))
        elif code in _OTHERS:
            _OTHERS[code](self, argument)
        else:
            raise NotPlainError(f"its pickle makes Python objects by the instruction {code}, and could run code")

    def _last(self, count: int) -> tuple:
        values = tuple(self.stack[-count:])
        if len(values) < count:
            raise NotPlainError("its pickle is damaged")
        del self.stack[-count:]
        return values

    def _since_mark(self) -> list[Any]:
        start = self.marks.pop()
        values = self.stack[start:]
        del self.stack[start:]
        return values

    def mark(self, _: Any) -> None:
        self.marks.append(len(self.stack))

    def remember(self, key: Any) -> None:
        self.memo[len(self.memo) if key is None else int(key)] = self.stack[-1]

    def recall(self, key: Any) -> None:
        self.stack.append(self.memo[int(key)])

    def tuple_(self, _: Any) -> None:
        self.stack.append(tuple(self._since_mark()))

    def append(self, _: Any) -> None:
        self._extend([self.stack.pop()])

    def appends(self, _: Any) -> None:
        self._extend(self._since_mark())

    def _extend(self, values: list[Any]) -> None:
        if type(self.stack[-1]) is not list:
            raise NotPlainError("its pickle is damaged")
        self.stack[-1].extend(values)

    def item(self, _: Any) -> None:
        self._put(list(self._last(2)))

    def items(self, _: Any) -> None:
        self._put(self._since_mark())

    def _put(self, values: list[Any]) -> None:
        if type(self.stack[-1]) is not dict or len(values) % 2:
            raise NotPlainError("its pickle is damaged")
        if not all(isinstance(key, str | int) for key in values[::2]):
            raise NotPlainError("its pickle has keys that are no names")
        self.stack[-1].update(zip(values[::2], values[1::2], strict=True))

    def name(self, argument: Any) -> None:
        self.stack.append(Name(argument.replace(" ", ".")))

    def name_from_stack(self, _: Any) -> None:
        self.stack.append(Name(".".join(map(str, self._last(2)))))

    def reduce(self, _: Any) -> None:
        named, arguments = self._last(2)
        if not isinstance(named, Name) or not isinstance(arguments, tuple):
            raise NotPlainError("its pickle calls something that has no name")
        self.stack.append(self.call(named, arguments))

    def build(self, _: Any) -> None:
        """What an ordered dict carries beside its items (``_metadata`` of a state dict) is left out."""
        if type(self._last(1)[0]) is not dict or type(self.stack[-1]) is not dict:
            raise NotPlainError("its pickle sets attributes of an object")

    def persistent(self, _: Any) -> None:
        self.stack.append(self.fetch(self.stack.pop()))


_OTHERS: dict[str, Callable[[_Machine, Any], None]] = {
    "MARK": _Machine.mark,
    "BINPUT": _Machine.remember,
    "LONG_BINPUT": _Machine.remember,
    "PUT": _Machine.remember,
    "MEMOIZE": _Machine.remember,
    "BINGET": _Machine.recall,
    "LONG_BINGET": _Machine.recall,
    "GET": _Machine.recall,
    "TUPLE": _Machine.tuple_,
    "APPEND": _Machine.append,
    "APPENDS": _Machine.appends,
    "SETITEM": _Machine.item,
    "SETITEMS": _Machine.items,
    "GLOBAL": _Machine.name,
    "STACK_GLOBAL": _Machine.name_from_stack,
    "REDUCE": _Machine.reduce,
    "BUILD": _Machine.build,
    "BINPERSID": _Machine.persistent,
}


def plain_values(content: bytes, call: Callable[[Name, tuple], object], fetch: Callable[[object], object]) -> object:
    """The numbers, texts, lists, tuples and dicts of a pickle.

    ``call`` says what a named thing makes of its arguments, ``fetch`` what a persistent name stands for; both refuse
    what they do not know.

    >>> import pickle
    >>> plain_values(pickle.dumps({"epoch": 3, "rates": [0.1, 0.2]}), print, print)
    {'epoch': 3, 'rates': [0.1, 0.2]}
    """
    machine = _Machine(call, fetch)
    try:
        for opcode, argument, _ in pickletools.genops(io.BytesIO(content)):
            machine.step(opcode.name, argument)
    except (ValueError, KeyError, IndexError, TypeError, OverflowError) as error:
        raise NotPlainError("its pickle is damaged") from error
    if len(machine.stack) != 1:
        raise NotPlainError("its pickle is damaged")
    return machine.stack[0]
