"""The events as a JSON schema and as the table of docs/traces.md, from the classes themselves.

python scripts/event_reference.py schema > docs/schemas/events.schema.json
python scripts/event_reference.py table       the part of docs/traces.md between its marks
"""

import ast
import dataclasses
import inspect
import json
import sys
from collections.abc import Iterator
from typing import Any, get_args

from cuda_llm.traces.event_line import FIELDS_BY_ID
from cuda_llm.traces.events import VERSION, Event
from cuda_llm.traces.run_folder import FILES

_UNKNOWN_NUMBER = {"enum": ["inf", "-inf", "nan"]}


def event_schema() -> dict[str, Any]:
    """Return the JSON schema of one line of events.jsonl. Kinds and fields are only ever added."""
    from pydantic import TypeAdapter

    definitions: dict[str, Any] = {}
    for kind in get_args(Event):
        one = TypeAdapter(kind).json_schema(ref_template="#/$defs/{model}")
        nested = one.pop("$defs", {})
        for name, schema in one["properties"].items():
            if named := FIELDS_BY_ID.get(f"{kind.kind}.{name}"):
                by_id = {"type": "string", "description": f"Id: {FILES[named].format('<id>')}"}
                several = schema.get("type") == "array"
                one["properties"][name] = {"type": "array", "items": by_id} if several else by_id
        properties = {
            "v": {"const": VERSION},
            "seq": {"type": "integer", "minimum": 1},
            "at": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$"},
            "kind": {"const": kind.kind},
        }
        definitions |= _named_in(one, nested)
        definitions[kind.__name__] = {
            "type": "object",
            "description": inspect.cleandoc(kind.__doc__),
            "properties": {**properties, **one["properties"]},
            "required": [*properties, *one.get("required", ())],
        }
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "One line of events.jsonl",
        "oneOf": [{"$ref": f"#/$defs/{kind.__name__}"} for kind in get_args(Event)],
        "$defs": dict(sorted(definitions.items())),
    }
    plain: dict[str, Any] = _with_words_for_numbers(whole)
    return plain


def _named_in(schema: Any, nested: dict[str, Any]) -> dict[str, Any]:
    """Return those of `nested` that the schema names, and those that they name."""
    found = {key: one for key, one in nested.items() if f'"#/$defs/{key}"' in json.dumps(schema)}
    rest = {key: one for key, one in nested.items() if key not in found}
    return found | (_named_in(found, rest) if found else {})


def event_table() -> str:
    """Return every event and its fields, in the order of the union."""
    return "\n".join(line for kind in get_args(Event) for line in _section(kind))


def _section(kind: Any) -> Iterator[str]:
    texts = _field_docs(kind)
    yield f"### `{kind.kind}`"
    yield ""
    yield inspect.cleandoc(kind.__doc__)
    yield ""
    for one in dataclasses.fields(kind):
        spelled = str(one.type if isinstance(one.type, str) else _spell(one.type))
        text = f": {texts[one.name]}" if one.name in texts else ""
        if named := FIELDS_BY_ID.get(f"{kind.kind}.{one.name}"):
            text = (
                f"{text or ':'} A line names it by id; it lies in `{FILES[named].format('<id>')}`."
            )
        yield f"- `{one.name}` ({spelled}){text}"
    yield ""


def _spell(kind: Any) -> str:
    """Return a type as the code spells it, without the modules."""
    if kind is type(None):
        return "None"
    if not get_args(kind):
        return str(getattr(kind, "__name__", kind))
    inner = ["..." if one is ... else _spell(one) for one in get_args(kind)]
    origin = getattr(kind, "__name__", "")
    return (
        " | ".join(inner)
        if origin in ("", "Union", "UnionType")
        else f"{origin}[{', '.join(inner)}]"
    )


def _field_docs(kind: Any) -> dict[str, str]:
    """Return the docstrings of the fields, by name."""
    body = ast.parse(inspect.getsource(kind)).body[0]
    assert isinstance(body, ast.ClassDef)
    texts = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        match field, text:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(words))),
            ):
                texts[name] = " ".join(words.split())
    return texts


def _with_words_for_numbers(schema: Any) -> Any:
    """Allow words for numbers that are not finite: JSON has none."""
    if isinstance(schema, dict):
        if schema.get("type") == "number":
            rest = {key: value for key, value in schema.items() if key != "type"}
            return {"anyOf": [{"type": "number"}, _UNKNOWN_NUMBER], **rest}
        return {key: _with_words_for_numbers(value) for key, value in schema.items()}
    return [_with_words_for_numbers(one) for one in schema] if isinstance(schema, list) else schema


if __name__ == "__main__":
    print(event_table() if sys.argv[1:] == ["table"] else json.dumps(event_schema(), indent=2))
