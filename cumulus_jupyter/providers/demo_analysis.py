"""The scripted model's analysis of a table: each step follows from what the last ones returned."""

from __future__ import annotations

import re

from ..agent.messages import ToolResult
from .demo_turn import Call, Column, Seen, Turn

__all__ = ["analyse"]

_TABLES = re.compile(r"[^\s|:]\S*(?: \S+)*\.(?:csv|tsv)\b", re.IGNORECASE)
_OUTCOMES = re.compile(r"churn|target|label|outcome|class|survived|default|y$|species|quality", re.IGNORECASE)
_STEPS = ("Find and read the data", "Profile it", "Choose the column that matters", "Chart it, leave the code here")


def analyse(seen: Seen) -> Turn:
    """The next step, from what the last ones returned."""
    if seen.result("list_files") is None:
        return _plan()
    table = _table(seen)
    if table is None:
        return Turn(
            "There is no CSV or TSV file in this folder, and I am a script that knows only tables. Put one here and "
            "run the cell again, or choose a real model with `-m`.",
            [],
        )
    if (read := seen.result("read_file")) is None:
        text = f"I found `{table}`. First a look at how it is laid out."
        return Turn(text, [("read_file", {"path": table, "limit": 6})])
    if not read.ok:
        return Turn(f"I can't read `{table}`: {_first_line(read.text)}", [])
    if (profile := seen.result("run_python")) is None:
        return Turn(
            "Now what is in its columns.", [_todos(1), ("run_python", {"code": _profile_code(table, _separator(read))})]
        )
    columns = _columns(profile.text)
    if not profile.ok or not columns:
        return _no_profile(table, profile)
    return _with_profile(seen, table, columns)


def _with_profile(seen: Seen, table: str, columns: list[Column]) -> Turn:
    candidates = _candidates(columns)
    answer = seen.result("AskUserQuestion")
    if answer is None and len(candidates) >= 2:
        return _question(columns, candidates)
    target, how = _target(answer, columns, candidates)
    by = _grouping(columns, target)
    read = seen.result("read_file")
    assert read is not None
    code = _chart_code(table, _separator(read), target, by)
    chart = seen.result("run_python", 1)
    if chart is None:
        over = f" over `{by.name}`" if by else ""
        return Turn(f"{how} I'll draw it{over}.", [_todos(3), ("run_python", {"code": code})])
    if not chart.ok:
        return Turn(f"The chart did not work: {_first_line(chart.text, last=True)}", [])
    return _with_chart(seen, table, target, by, code, chart)


def _with_chart(seen: Seen, table: str, target: Column, by: Column | None, code: str, chart: ToolResult) -> Turn:
    edits = seen.count("notebook_edit")
    if edits == 0:
        source = f"# {target.name} in {table}, from the agent's run above\n{code}"
        return Turn(
            "The code goes into a cell of its own, so that you can run it again.",
            [("notebook_edit", {"operation": "insert", "kind": "code", "source": source})],
        )
    edit = seen.result("notebook_edit", edits - 1)
    assert edit is not None
    copy = re.search(r"[^\s'\"`(]+-agent\.ipynb", edit.text)
    if not edit.ok and edits < 3:
        return _fall_back(seen, copy[0] if copy else f"{table.rsplit('/')[-1].rsplit('.')[0]}-agent.ipynb", edits)
    place = _place(edit)
    if not _all_done(seen):
        return Turn("", [_todos(len(_STEPS))])
    return Turn(_summary(table, target, by, chart, place), [])


def _fall_back(seen: Seen, path: str, edits: int) -> Turn:
    source = seen.argument("notebook_edit", "source")
    operation = "create" if edits == 1 else "insert"
    text = (
        f"This notebook can't be edited from here, so I'll make `{path}` beside it."
        if edits == 1
        else f"`{path}` is there already; I'll add the cell to it."
    )
    return Turn(text, [("notebook_edit", {"operation": operation, "path": path, "kind": "code", "source": source})])


def _place(edit: ToolResult) -> str:
    """Where the code stands, from the words of the edit's result."""
    if not edit.ok:
        return f"The code is not stored: {_first_line(edit.text)}"
    found = re.search(r"cell (\d+) of \d+ in (.+?)(?:, hash|$)", _first_line(edit.text))
    return f"The code is in cell {found[1]} of `{found[2].rsplit('/')[-1]}`" if found else _first_line(edit.text)


def _all_done(seen: Seen) -> bool:
    last = seen.argument("update_todos", "todos", -1)
    return all(item["status"] == "completed" for item in last)


def _plan() -> Turn:
    text = (
        "I'm a scripted demo model. My plan: find the data in this folder, profile it, ask you which column matters, "
        "then chart it and leave the code in your notebook."
    )
    return Turn(
        text,
        [_todos(0), ("tool_search", {"query": "notebook jupyter"}), ("list_files", {"pattern": "**/*.[ct]sv"})],
    )


def _todos(current: int) -> Call:
    states = ["completed" if i < current else "in_progress" if i == current else "pending" for i in range(len(_STEPS))]
    return "update_todos", {"todos": [{"label": s, "status": t} for s, t in zip(_STEPS, states, strict=True)]}


def _table(seen: Seen) -> str | None:
    """The table that the prompt names, else the first that the listing shows."""
    listing = seen.result("list_files")
    found = []
    for line in listing.text.splitlines() if listing and listing.ok else ():
        if match := _TABLES.search(line):
            found.append(match[0].removeprefix("./"))
    named = [name for name in found if name.rsplit("/")[-1].lower() in seen.prompt.lower()]
    return next(iter(named or found), None)


def _separator(read: ToolResult) -> str:
    """How the table's columns are parted, as an argument of ``read_csv``: by what its first line has most of."""
    header = next((line for line in read.text.splitlines() if re.match(r"\s*1\t", line)), "").partition("\t")[2]
    most = max(",;\t|", key=header.count)
    return "" if most == "," or not header.count(most) else f", sep={most!r}"


def _profile_code(table: str, separator: str) -> str:
    return (
        "import pandas as pd\n\n"
        f"df = pd.read_csv({table!r}{separator})\n"
        'print(f"{len(df):,} rows, {df.shape[1]} columns")\n'
        'profile = pd.DataFrame({"dtype": df.dtypes.astype(str), "missing": df.isna().sum(), "unique": df.nunique()})\n'
        "print(profile.to_string())"
    )


def _columns(text: str) -> list[Column]:
    """The profile's rows as printed: a name, then type, missing and unique values."""
    rows = []
    for line in text.splitlines():
        match = re.fullmatch(r"(.+?)\s+([A-Za-z]\S*)\s+(\d+)\s+(\d+)", line.rstrip())
        if match:
            rows.append(Column(match[1].strip(), match[2], int(match[3]), int(match[4])))
    return rows


def _no_profile(table: str, profile: ToolResult) -> Turn:
    reason = _first_line(profile.text, last=True)
    hint = ""
    if missing := re.search(r"No module named '(\w+)'", profile.text):
        hint = f" Install it with `%pip install {missing[1]}` and run the cell again."
    elif "denied" in profile.text:
        hint = " Run the cell with `--approve all` to let me run code."
    return Turn(f"I can't profile `{table}`: {reason}{hint}", [])


def _candidates(columns: list[Column]) -> list[Column]:
    """Up to four columns that may be what the person cares about, the likeliest first."""
    usable = [c for c in columns if c.unique > 1 and (c.unique <= 12 or c.numeric)]
    ranked = sorted(usable, key=lambda c: (not _OUTCOMES.search(c.name), c.unique != 2, c.unique > 12, c.missing > 0))
    return ranked[:4]


def _question(columns: list[Column], candidates: list[Column]) -> Turn:
    options = [
        {"label": c.name + (" (Recommended)" if i == 0 else ""), "description": _described(c)}
        for i, c in enumerate(candidates)
    ]
    question = {"question": "Which column matters to you?", "header": "Target", "options": options}
    text = f"{len(columns)} columns. Which of them the question is about is yours to say."
    return Turn(text, [_todos(2), ("AskUserQuestion", {"questions": [question]})])


def _described(column: Column) -> str:
    missing = f", {column.missing:,} missing" if column.missing else ", no gaps"
    return f"{column.dtype}, {column.unique:,} different values{missing}"


def _target(answer: ToolResult | None, columns: list[Column], candidates: list[Column]) -> tuple[Column, str]:
    """The column that was answered, and what to say of it."""
    if not candidates:
        return columns[0], f"Only `{columns[0].name}` can be counted."
    if answer is None:
        return candidates[0], f"Only `{candidates[0].name}` comes into question."
    said = answer.text.partition(": ")[2].removesuffix(" (Recommended)").strip().lower()
    for column in columns:
        if said and column.name.lower() == said:
            return column, f"`{column.name}` it is."
    for column in sorted(columns, key=lambda c: -len(c.name)):
        if re.search(rf"\b{re.escape(column.name.lower())}\b", said):
            return column, f"I take that as `{column.name}`."
    return candidates[0], f"No column was chosen ({_first_line(answer.text)}), so I go on with `{candidates[0].name}`."


def _grouping(columns: list[Column], target: Column) -> Column | None:
    """The column to draw the target over: a few groups, the fewest missing."""
    groups = [c for c in columns if c.name != target.name and 2 <= c.unique <= 12]
    return min(groups, key=lambda c: (c.numeric, c.missing, c.unique), default=None)


def _chart_code(table: str, separator: str, target: Column, by: Column | None) -> str:
    name = target.name
    load = f"import matplotlib.pyplot as plt\nimport pandas as pd\n\ndf = pd.read_csv({table!r}{separator})\n"
    if by is None:
        shown = (
            f"df[{name!r}].value_counts().head(12)"
            if not target.numeric
            else f"df[{name!r}].value_counts(bins=8, sort=False)"
        )
        label, title = "rows", f"{name} in {table}"
    elif target.numeric:
        shown = f"df.groupby({by.name!r})[{name!r}].mean().sort_values(ascending=False).head(12)"
        label, title = f"mean {name}", f"{name} by {by.name}"
    else:
        shown = f"pd.crosstab(df[{by.name!r}], df[{name!r}], normalize='index')"
        label, title = "share of rows", f"{name} by {by.name}"
    return (
        f"{load}summary = {shown}\n"
        "fig, ax = plt.subplots(figsize=(6, 3))\n"
        'summary.plot.bar(ax=ax, rot=0, color="#1976d2" if summary.ndim == 1 else None)\n'
        f"ax.set(title={title!r}, xlabel={(by.name if by else name)!r}, ylabel={label!r})\n"
        'ax.spines[["top", "right"]].set_visible(False)\n'
        "fig.tight_layout()\n"
        "plt.show()\n"
        "print(summary.round(3).to_string())"
    )


def _summary(table: str, target: Column, by: Column | None, chart: ToolResult, place: str) -> str:
    """The answer: a small table of the rows that the chart's code printed."""
    rows = _printed_rows(chart.text, header=bool(by) and not target.numeric)
    value = f"mean {target.name}" if by else "rows"
    head = [by.name if by else target.name, *(rows.pop(0) if by and not target.numeric and rows else [value])]
    lines = [f"| {' | '.join(map(_cell, head))} |", "|" + "---|" * len(head)]
    lines += [f"| {' | '.join(map(_cell, row))} |" for row in rows[:8] if len(row) == len(head)]
    subject = f"**{target.name}** by **{by.name}**" if by else f"**{target.name}**"
    lead = ""
    if by and target.numeric and len(rows) >= 2:
        high, low = rows[0], rows[-1]
        lead = f" It is highest for {high[0]} ({high[1]}) and lowest for {low[0]} ({low[1]})."
    table_text = "\n".join(lines)
    close = f"{place}. A chart shows what goes together, not why."
    return f"{subject} in `{table}`.{lead}\n\n{table_text}\n\n{close}"


def _printed_rows(text: str, *, header: bool) -> list[list[str]]:
    """Rows of a printed Series or crosstab; a crosstab's first is its column names."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith(("[image", "variables "))]
    if not header:
        rows = [re.split(r"\s{2,}", line.strip()) for line in lines]
        return [row for row in rows if len(row) == 2 and re.fullmatch(r"-?[\d.]+(?:e[+-]?\d+)?|NaN", row[1])]
    if len(lines) < 3:
        return []
    names = lines[0].split()[1:]
    rows = [line.rsplit(None, len(names)) for line in lines[2:]]
    return [names, *([row[0].strip(), *row[1:]] for row in rows if len(row) == len(names) + 1)]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _first_line(text: str, *, last: bool = False) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip() and not line.startswith("variables ")]
    return (lines[-1 if last else 0].strip() if lines else "no output")[:300]
