"""``where`` as a condition on a jsonb column of PostgreSQL; values are parameters, never part of the statement."""

import json
from typing import Any

from isch.errors import InputError
from isch.search.filters import Where, tests

Condition = tuple[str, list[Any]]


def condition(where: Where) -> Condition:
    """(SQL with placeholders, values) of a ``where``."""
    parts = [_one(field, operator, value) for field, operator, value in tests(where)]
    return " AND ".join(sql for sql, _ in parts) or "true", [value for _, values in parts for value in values]


def _one(field: str, operator: str, value: Any) -> Condition:
    if "\0" in field:
        raise InputError(f"a where field must not contain NUL; got {field!r}")
    if operator == "in":
        options = [_equal(field, one) for one in value]
        return "(" + (" OR ".join(sql for sql, _ in options) or "false") + ")", [v for _, vs in options for v in vs]
    if operator == "!=":
        sql, values = _equal(field, value)
        return f"(jsonb_exists(metadata, %s) AND NOT {sql})", [field, *values]
    if isinstance(value, str):
        sql = f"(jsonb_typeof(metadata->%s) = 'string' AND (metadata->>%s) COLLATE \"C\" {operator} %s)"
        return sql, [field, field, value]
    number = "(CASE WHEN jsonb_typeof(metadata->%s) = 'number' THEN (metadata->>%s)::numeric END)"
    return f"({number} {operator} %s) IS TRUE", [field, field, value]


def _equal(field: str, value: Any) -> Condition:
    return "coalesce(metadata->%s = %s::jsonb, false)", [field, json.dumps(value)]
