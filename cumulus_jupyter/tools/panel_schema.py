"""What ``present_ui`` takes, as pydantic models: imported with the first panel."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

__all__ = ["COMPONENTS", "CONTAINERS", "INPUTS", "SHAPES", "Panel"]

Id = Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z][A-Za-z0-9_-]*$")]
Title = Annotated[str, Field(min_length=1, max_length=200)]
Prose = Annotated[str, Field(min_length=1, max_length=2_000)]
Short = Annotated[str, Field(max_length=500)]
Variable = Annotated[str, Field(max_length=64)]
Number = int | Annotated[float, Field(allow_inf_nan=False)]

_UNSAFE = re.compile(r"[\s\\\x00-\x1f\x7f-\x9f]")


def _href(value: str) -> str:
    # A browser reads a backslash as a slash: "https://evil.org\@good.org" goes to evil.org.
    if _UNSAFE.search(value):
        raise ValueError("may hold no space, backslash or control character")
    return value


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Text(_Strict):
    """A paragraph."""

    component: Literal["Text"]
    value: Prose
    tone: Literal["default", "muted"] = "default"


class Heading(_Strict):
    """A heading."""

    component: Literal["Heading"]
    value: Title
    level: Literal[1, 2, 3] = 2


class Badge(_Strict):
    """A short state."""

    component: Literal["Badge"]
    label: Title
    status: Literal["neutral", "success", "warning", "info", "danger"] = "neutral"


class KV(_Strict):
    """A figure with its name."""

    label: Title
    value: Short


class KeyValue(_Strict):
    """Figures with their names."""

    component: Literal["KeyValue"]
    items: Annotated[list[KV], Field(min_length=1, max_length=20)]


class Table(_Strict):
    """A table; that rows are as long as ``columns`` is checked elsewhere."""

    component: Literal["Table"]
    columns: Annotated[list[Title], Field(min_length=1, max_length=8)]
    rows: Annotated[list[list[Short]], Field(max_length=50)] = []


class CodeBlock(_Strict):
    """Code."""

    component: Literal["CodeBlock"]
    code: Annotated[str, Field(min_length=1, max_length=20_000)]
    language: Annotated[str, Field(max_length=32, pattern=r"^[A-Za-z0-9_+#.-]+$")] | None = None


class Alert(_Strict):
    """A remark that must be seen."""

    component: Literal["Alert"]
    body: Prose
    title: Title | None = None
    variant: Literal["info", "success", "warning", "danger"] = "info"


class Divider(_Strict):
    """A line."""

    component: Literal["Divider"]


class Link(_Strict):
    """A link to the web or to a mail address."""

    component: Literal["Link"]
    href: Annotated[str, Field(max_length=2_000, pattern=r"^(https?://[^/\s]+|mailto:[^\s@]+@)"), AfterValidator(_href)]
    label: Title


class Slider(_Strict):
    """Sets a number."""

    component: Literal["Slider"]
    variable: Variable
    min: Number
    max: Number
    step: Number | None = None
    value: Number | None = None
    label: Title | None = None
    run: bool = True


class Select(_Strict):
    """Sets one of some values."""

    component: Literal["Select"]
    variable: Variable
    options: Annotated[list[Title | Number], Field(min_length=1, max_length=50)]
    value: Title | Number | None = None
    label: Title | None = None
    run: bool = True


class Toggle(_Strict):
    """Sets true or false."""

    component: Literal["Toggle"]
    variable: Variable
    value: bool | None = None
    label: Title | None = None
    run: bool = True


class TextInput(_Strict):
    """Sets a text."""

    component: Literal["TextInput"]
    variable: Variable
    value: Short | None = None
    placeholder: Title | None = None
    label: Title | None = None
    run: bool = True


class Button(_Strict):
    """Calls the panel's function."""

    component: Literal["Button"]
    label: Title


class Output(_Strict):
    """The place of what the panel's function prints, shows and returns."""

    component: Literal["Output"]


class Stack(_Strict):
    """Nodes in a row or below each other."""

    component: Literal["Stack"]
    direction: Literal["vertical", "horizontal"] = "vertical"
    gap: Literal["sm", "md", "lg"] = "md"
    id: Id | None = None
    children: Annotated[list[Node], Field(max_length=200)] = []


class Card(_Strict):
    """Nodes in a box."""

    component: Literal["Card"]
    title: Title | None = None
    id: Id | None = None
    children: Annotated[list[Node], Field(max_length=200)] = []


Node = Annotated[
    Text
    | Heading
    | Card
    | Stack
    | Badge
    | KeyValue
    | Table
    | CodeBlock
    | Alert
    | Divider
    | Link
    | Slider
    | Select
    | Toggle
    | TextInput
    | Button
    | Output,
    Field(discriminator="component"),
]


class Live(_Strict):
    """What the person is asked to allow: the variables that inputs set, and the one function that they call."""

    variables: Annotated[list[Variable], Field(max_length=20)] = []
    function: Variable | None = None


class Panel(_Strict):
    """The call's arguments."""

    root: Annotated[list[Node], Field(min_length=1, max_length=200)]
    summary: Title
    ui_id: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{2,63}$")] | None = None
    operation: Literal["replace", "append", "update"] = "replace"
    target: Id | None = None
    live: Live | None = None


for _model in (Stack, Card, Panel):
    _model.model_rebuild()

CONTAINERS = ("Card", "Stack")
INPUTS = ("Slider", "Select", "Toggle", "TextInput", "Button", "Output")
COMPONENTS = ("Text", "Heading", "Card", "Stack", "Badge", "KeyValue", "Table", "CodeBlock", "Alert", "Divider", "Link")

SHAPES = {
    "Text": "Text{value: text ≤ 2000, tone?: default | muted}",
    "Heading": "Heading{value: text ≤ 200, level?: 1 | 2 | 3}",
    "Card": "Card{title?: text ≤ 200, id?: name, children: [nodes]}",
    "Stack": "Stack{direction?: vertical | horizontal, gap?: sm | md | lg, id?: name, children: [nodes]}",
    "Badge": "Badge{label: text ≤ 200, status?: neutral | success | warning | info | danger}",
    "KeyValue": "KeyValue{items: 1-20 of {label: text ≤ 200, value: text ≤ 500}}",
    "Table": "Table{columns: 1-8 texts, rows: up to 50 lists, each of one text (≤ 500) a column}",
    "CodeBlock": "CodeBlock{code: text ≤ 20000, language?: name}",
    "Alert": "Alert{body: text ≤ 2000, title?: text ≤ 200, variant?: info | success | warning | danger}",
    "Divider": "Divider{}",
    "Link": "Link{href: https://…, http://… or mailto:…, label: text ≤ 200}",
    "Slider": "Slider{variable, min, max, step?, value?, label?, run?: true | false}",
    "Select": "Select{variable, options: 1-50 texts or numbers, value?, label?, run?}",
    "Toggle": "Toggle{variable, value?: true | false, label?, run?}",
    "TextInput": "TextInput{variable, value?, placeholder?, label?, run?}",
    "Button": "Button{label}",
    "Output": "Output{}",
    "": (
        "present_ui(root: [1-200 nodes], summary: text ≤ 200, ui_id?: name, operation?: replace | append | update, "
        "target?: a container's id, live?: {variables: [names], function?: name})"
    ),
}
"""The right shape of each component, and of the call itself under the empty name."""
