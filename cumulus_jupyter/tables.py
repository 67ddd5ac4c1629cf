"""Rows in and results out: lists, and pandas objects where they were given."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

from .agent.errors import SettingsError
from .agent.messages import RunUsage

__all__ = ["MappedRows", "collected", "rows_of", "shown"]


class MappedRows(list[Any]):
    """Results in the order of the rows, None for a row that failed.

    ``errors`` says why, by position; ``usage`` is what all rows took together.
    """

    errors: dict[int, str]
    usage: RunUsage


def rows_of(rows: Any) -> list[Any]:
    """The rows of a table, series or iterable as plain values, missing ones as None.

    Raises
    ------
    SettingsError
        It has no rows, or columns of one name.
    """
    pandas = sys.modules.get("pandas")
    if pandas and isinstance(rows, pandas.DataFrame):
        if not rows.columns.is_unique:
            raise SettingsError("two columns have one name, so a row can't be told by names: rename one")
        return list(_present(rows).to_dict("records"))
    if pandas and isinstance(rows, pandas.Series):
        return list(_present(rows))
    if hasattr(rows, "to_dicts"):  # a Polars table
        return list(rows.to_dicts())
    if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
        raise SettingsError(f"rows is one {type(rows).__name__}: give a list, a DataFrame or a Series")
    return list(rows)


def _present(data: Any) -> Any:
    whole = data.astype(object)
    return whole.where(data.notna(), None)


def shown(row: Any) -> str:
    """A row as a model sees it: a text as it is, anything else as JSON."""
    if isinstance(row, str):
        return row
    if hasattr(row, "_asdict"):  # a named tuple
        row = row._asdict()
    elif type(row).__module__.startswith("pandas") and hasattr(row, "to_dict"):
        row = _present(row).to_dict()
    from pydantic_core import to_json

    return to_json(_filled(row), fallback=_plain, inf_nan_mode="null").decode("utf-8")


def _filled(value: Any) -> Any:
    """The value with None for what pandas calls missing, which JSON can't tell."""
    if isinstance(value, dict):
        return {key: _filled(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_filled(item) for item in value]
    return None if type(value).__name__ in ("NaTType", "NAType") else value


def _plain(value: Any) -> Any:
    """What JSON has no word for: NumPy's numbers and arrays as Python's, the rest as its text."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


def collected(
    rows: Any, values: Sequence[Any], errors: Mapping[int, str], usage: RunUsage, fields: Sequence[str] | None
) -> Any:
    """Results in the form of the rows: a list, or a pandas object on their index."""
    pandas = sys.modules.get("pandas")
    errors = dict(sorted(errors.items()))
    if not (pandas and isinstance(rows, pandas.DataFrame | pandas.Series)):
        made = MappedRows(values)
        made.errors, made.usage = errors, usage
        return made
    if fields is None:
        dtype = object if not values or any(isinstance(value, list | dict) for value in values) else None
        table = pandas.Series(list(values), index=rows.index, name="result", dtype=dtype)
    else:
        told = "error" if "error" not in fields else "agent_error"
        records = [{**_record(value, fields), told: errors.get(at)} for at, value in enumerate(values)]
        table = pandas.DataFrame(records, index=rows.index, columns=[*fields, told])
    # Plain values only: pandas writes these beside a table to a file.
    table.attrs = {"usage": dataclasses.asdict(usage), "errors": {str(at): text for at, text in errors.items()}}
    return table


def _record(value: Any, fields: Sequence[str]) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        value = value.model_dump() if hasattr(value, "model_dump") else dataclasses.asdict(value)
    return {name: _cell(value.get(name)) for name in fields}


def _cell(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value
