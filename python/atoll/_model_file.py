"""A model as a Python dictionary, written as the TOML of a model file."""

import json

from atoll._errors import InputError

KEYS = ("input", "layer", "head")


def _value(value, place):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    raise InputError(f"model: {place} is {value!r}; allowed are text, numbers, True and False")


def _lines(table, place):
    if not isinstance(table, dict):
        raise InputError(f"model: {place} is {table!r}; allowed is a dictionary")
    return [f"{str(key).replace('_', '-')} = {_value(value, f'{place}[{key!r}]')}\n"
            for key, value in table.items()]


def to_toml(model):
    """The text of a model file (docs/models.md). In `model`, "input" and "head" are dictionaries,
    and "layer" is a list of dictionaries. Keys may have _ instead of -. The program checks the
    values."""
    unknown = [key for key in model if key not in KEYS]
    if unknown:
        raise InputError(f"model: unknown key {unknown[0]!r}; allowed are {', '.join(KEYS)}")
    layers = model.get("layer")
    if not isinstance(layers, (list, tuple)) or not layers:
        raise InputError(f"model: 'layer' is {layers!r}; allowed is a list of dictionaries, one "
                         "per [[layer]]")
    text = ""
    if "input" in model:
        text += "".join(["[input]\n", *_lines(model["input"], "input")])
    for number, layer in enumerate(layers):
        text += "".join(["\n[[layer]]\n", *_lines(layer, f"layer[{number}]")])
    if "head" in model:
        text += "".join(["\n[head]\n", *_lines(model["head"], "head")])
    return text
