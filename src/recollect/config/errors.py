"""A validation error as one sentence: where, what we got, what is allowed, and the nearest valid name."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError


def explain(error: ValidationError, model: type[BaseModel], origin: str) -> str:
    """The first problem in words; the others are usually its echoes."""
    problem = error.errors()[0]
    location, known = _place(model, [str(part) for part in problem["loc"]])
    where = ".".join(location)
    if problem["type"] == "extra_forbidden":
        near = get_close_matches(location[-1], known, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"valid keys there: {', '.join(known)}."
        return f"{origin}: unknown key '{where}'; {hint}"
    message = problem["msg"].removeprefix("Value error, ")
    # Sentences of our own say what they got.
    got = "" if problem["type"] == "value_error" else f" (got {short(problem['input'])})"
    return f"{origin}: {where or 'the configuration'}: {message[0].lower()}{message[1:]}{got}."


def _place(model: type[BaseModel], location: list[str]) -> tuple[list[str], list[str]]:
    """A place in the configuration as the user writes it, and the names that are valid beside it."""
    written: list[str] = []
    kinds: dict[str, type[BaseModel]] = {}
    around = model
    for key in location:
        if key in kinds:  # which of several models was tried: pydantic tells, the user never wrote it
            model, kinds = kinds[key], {}
            continue
        written.append(key)
        around = model
        field = model.model_fields.get(key)
        inner = [] if field is None else _models_in(field.annotation)
        if inner:  # otherwise a position in a list, or a free name, such as that of a baseline
            model = inner[0]
            tagged = [other for other in inner if "kind" in other.model_fields] if len(inner) > 1 else []
            kinds = {str(other.model_fields["kind"].default): other for other in tagged}
    return written, list(around.model_fields)


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for part in get_args(annotation) for found in _models_in(part)]


def short(value: Any) -> str:
    """A value as it is written in Python, cut off where it is long."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
