"""A validation error as one sentence: where, what we got, what is allowed, and the nearest valid name."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError


def explain(error: ValidationError, model: type[BaseModel], origin: str) -> str:
    """The first problem in words; the others are usually its echoes."""
    problem = error.errors()[0]
    location = [str(part) for part in problem["loc"]]
    where = ".".join(location)
    if problem["type"] == "extra_forbidden":
        known = _fields(model, location[:-1])
        near = get_close_matches(location[-1], known, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"valid keys there: {', '.join(known)}."
        return f"{origin}: unknown key '{where}'; {hint}"
    message = problem["msg"].removeprefix("Value error, ")
    return (
        f"{origin}: {where or 'the configuration'}: {message[0].lower()}{message[1:]} (got {_short(problem['input'])})."
    )


def _fields(model: type[BaseModel], location: list[str]) -> list[str]:
    """Names that are valid at a place in the configuration."""
    for key in location:
        if key.isdigit():
            continue
        field = model.model_fields.get(key)
        inner = None if field is None else _model_in(field.annotation)
        if inner is None:
            continue  # a free name, such as that of a baseline
        model = inner
    return list(model.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part)) is not None), None)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
