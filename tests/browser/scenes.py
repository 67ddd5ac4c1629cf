"""What the scripted model says and does in the pictures: one script a state of the cell, chosen by the prompt.

To be imported in the kernel, in the folder of the notebook.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from cumulus_jupyter.agent.errors import ProviderError
from cumulus_jupyter.agent.messages import Reply, StopReason
from cumulus_jupyter.providers import demo
from cumulus_jupyter.providers.demo_turn import Call, Seen, Turn

from ..jupyter.panel_samples import DRAW, EVERYTHING, LIVE

__all__ = ["plan", "prepare"]

plan: dict[str, Any] = {}
"""``steps``: what the next replies do besides: wait, fail before or behind the text, stop for another reason."""
said = demo.DemoProvider.stream


async def stream(self: Any, request: Any) -> AsyncGenerator[Any, None]:
    step = (plan.get("steps") or [{}]).pop(0)
    await asyncio.sleep(step.get("wait", 0))
    if step.get("fails") == "before":
        raise ProviderError("the server is overloaded (529)", status=529, retryable=True, retry_after=step["after"])
    async for part in said(self, request):
        if isinstance(part, Reply):
            if step.get("fails") == "behind":
                raise ProviderError("the connection broke off", retryable=True, retry_after=step["after"])
            part = dataclasses.replace(part, stop=StopReason(step.get("stop", part.stop)))
        yield part


demo.DemoProvider.stream = stream
tour = demo.analyse
demo.analyse = lambda seen: Turn("**Contract type** drives churn; no values are missing.", [])


def scene(pattern: str, *turns: Turn) -> None:
    """A prompt with these words is answered by these turns, one a reply."""

    def script(seen: Seen, match: Any) -> Turn:
        at = len({call.id for call, _ in seen.done})
        for turn in turns:
            if at < max(len(turn.calls), 1) or turn is turns[-1]:
                return turn
            at -= len(turn.calls)
        raise AssertionError(pattern)

    demo._INTENTS.insert(0, (pattern, script))


report = """Short contracts and high monthly charges drive churn: **43 %** of month-to-month customers leave, **3 %** \
of those with two-year contracts.

| contract | customers | churn |
|:--|--:|--:|
| month-to-month | 3,875 | 43 % |
| one year | 1,473 | 11 % |
| two years | 1,695 | 3 % |

Two things to keep in mind:

- charges and contract length move together, so this is *not yet a cause*;
- `end_date` is filled only when somebody left: it must not be a feature.

```python
df.groupby("contract")["churn"].mean().plot.barh()
```

Next I would fit a small tree on the twelve remaining columns and look where it splits first."""
scene("what drives churn", Turn(report, [], 0.12))

todos = [
    {"label": "Read and profile customers.csv", "status": "completed"},
    {"label": "Choose the target column", "status": "in_progress"},
    {"label": "Chart and conclusion in a new cell", "status": "pending"},
]
image = """from PIL import Image, ImageDraw
p = Image.new('RGB', (420, 160), 'white'); d = ImageDraw.Draw(p)
for i, h in enumerate((43, 11, 3)): d.rectangle((40 + i * 130, 140 - 3 * h, 120 + i * 130, 140), fill='#1976d2')
p.save('churn.png')"""
slow = """import time
for n in range(8):
    print(f'fold {n + 1} of 8: accuracy {0.78 + n / 100:.2f}')
    time.sleep(.9)"""
scene(
    "profile",
    Turn(
        "I'll look at the data first, then pick the column that carries the signal.",
        [
            ("update_todos", {"todos": todos}),
            ("list_files", {"pattern": "*.csv"}),
            ("read_file", {"path": "long.csv"}),
            ("read_file", {"path": "notes.md"}),
            ("search_files", {"regex": "Month-to-month", "glob": "*.csv"}),
            ("run_python", {"code": image}),
            ("run_python", {"code": "df.describe()"}),
        ],
    ),
    Turn("", [("read_file", {"path": "churn.png"}), ("run_python", {"code": slow})]),
    Turn("The table is read; one plot is drawn.", []),
)

scene("overloaded", Turn("Here is the answer after all.", []))
scene("breaks off", Turn("The first thing to look at is the length of the contract.", []))

target = {
    "question": "Which column says that a customer left?",
    "header": "Target",
    "options": [
        {"label": "churn (Recommended)", "description": "0/1, no gaps, 27 % ones"},
        {"label": "end_date", "description": "filled when the contract ended; 1,869 values"},
    ],
}
plots = {
    "question": "Which charts should stand in the report?",
    "header": "Charts",
    "multiSelect": True,
    "options": [
        {
            "label": "Bars",
            "description": "churn by contract",
            "preview": "month-to-month ██████████ 43 %\none year       ███ 11 %",
        },
        {"label": "Lines", "description": "churn by month", "preview": "▁▂▃▅▆▇▆▅▃▂▁"},
        {"label": "Boxes", "description": "monthly charges by churn"},
    ],
}
naming = {"question": "What shall the chart be called?", "header": "Title"}
scene(
    "ask one",
    Turn("", [("AskUserQuestion", {"questions": [target], "notes_placeholder": "anything to add?"})]),
    Turn("I go on with that column.", []),
)
scene(
    "ask many",
    Turn("", [("AskUserQuestion", {"timeout_seconds": 600, "questions": [plots, target, naming]})]),
    Turn("Then I draw these.", []),
)
scene(
    "ask briefly",
    Turn("", [("AskUserQuestion", {"timeout_seconds": 5, "questions": [naming]})]),
    Turn('Nobody answered, so I call it "Churn by contract".', []),
)

code = 'df["churn"].groupby(df["contract"]).mean().round(2)\nprint("three groups")'
scene("run it", Turn("", [("run_python", {"code": code})]), Turn("I leave it at that.", []))


def child(words: str, *calls: Call, pause: float = 0.05) -> None:
    scene(words, Turn("", list(calls)), Turn("Monthly contracts churn at 43 %, two-year contracts at 3 %.", [], pause))


child("contract types", ("list_files", {"pattern": "*.csv"}), ("search_files", {"regex": "Month", "glob": "*.csv"}))
child("missing values", ("read_file", {"path": "customers.csv", "limit": 3}), pause=0.8)
child("first model", ("run_python", {"code": "fit()"}))
tasks = [
    {"task": "Profile churn by contract types in customers.csv.", "name": "contract types"},
    {"task": "Check customers.csv for missing values.", "name": "missing values"},
    {"task": "Fit a first model.", "name": "first model"},
]
scene(
    "three helpers",
    Turn("", [("tool_search", {"query": "select:spawn_agents"})]),
    Turn("", [("spawn_agents", {"tasks": tasks})]),
    Turn("Three of them look; I wait.", []),
)

rows = [[f"customer {n}", *(f"{n * k:,}" for k in range(1, 6)), "month-to-month", f"{n % 47} %"] for n in range(1, 51)]
table = {
    "summary": "Fifty customers",
    "root": [
        {
            "component": "Card",
            "title": "Fifty customers",
            "children": [
                {
                    "component": "Table",
                    "columns": ["name", "calls", "minutes", "bytes", "tickets", "visits", "contract", "risk"],
                    "rows": rows,
                }
            ],
        }
    ],
}
scene("all components", Turn("", [("present_ui", EVERYTHING)]), Turn("The panel shows it.", []))
scene("smooth it", Turn("", [("present_ui", LIVE)]), Turn("Drag the slider.", []))
scene("fifty rows", Turn("", [("present_ui", table)]), Turn("They scroll.", []))

scene(
    "go on for ever",
    Turn("", [("list_files", {"pattern": "*.csv"})]),
    Turn("", [("list_files", {"pattern": "*.md"})]),
    Turn("That is as far as I may go.", []),
)
scene("be cut", Turn("The report begins here, and it is long. " * 6, []))
scene("be refused", Turn("I would rather not do that.", []))
scene("fail", Turn("", []))

arabic = """ترتبط مدة العقد بمعدل الرحيل: **43 %** من العملاء بعقد شهري يغادرون، و`churn` هو العمود الذي يقول ذلك.

| العقد | العملاء | الرحيل |
|:--|--:|--:|
| شهري | 3,875 | 43 % |
| سنتان | 1,695 | 3 % |

- الرسوم ومدة العقد تتحركان معًا، فليس هذا سببًا بعد؛
- לא למחוק את העמודה `end_date` לפני הבדיקה.

契約期間が短いほど解約率が高く、月額料金も影響しています。下一步:在剩下的十二列上拟合一棵小树,看看它首先在哪里分裂。"""
frage = {
    "question": "أي عمود يقول إن العميل غادر؟",
    "header": "الهدف",
    "options": [
        {"label": "churn (מומלץ)", "description": "صفر أو واحد، بلا فجوات"},
        {"label": "تاريخ النهاية", "description": "يُملأ عند انتهاء العقد"},
        {"label": "解約日", "description": "契約終了時に記入"},
    ],
}
tafel = {
    "summary": "الرحيل حسب العقد",
    "root": [
        {
            "component": "Card",
            "title": "الرحيل حسب العقد",
            "children": [
                {"component": "Badge", "label": "مؤكد", "status": "success"},
                {
                    "component": "Table",
                    "columns": ["العقد", "العملاء", "الرحيل"],
                    "rows": [["شهري", "3,875", "43 %"], ["סנתיים", "1,695", "3 %"], ["二年契約", "12", "1 %"]],
                },
                {
                    "component": "KeyValue",
                    "items": [
                        {"label": "صفوف مستخدمة", "value": "7,032"},
                        {"label": "חסרים", "value": "11 ללא חיוב"},
                        {"label": "期間", "value": "2025-01 – 2025-12"},
                    ],
                },
                {
                    "component": "Alert",
                    "title": "ليس سببًا بعد",
                    "body": "الرسوم ومدة العقد تتحركان معًا.",
                    "variant": "warning",
                },
                {"component": "Link", "href": "https://example.org/method", "label": "كيف يعمل الاختبار"},
            ],
        }
    ],
}
todos_ar = [
    {"label": "قراءة customers.csv", "status": "completed"},
    {"label": "בחירת עמודה", "status": "in_progress"},
    {"label": "図を描く", "status": "pending"},
]
scene(
    "العقد",
    Turn(
        arabic,
        [
            ("update_todos", {"todos": todos_ar}),
            ("list_files", {"pattern": "*.csv"}),
            ("read_file", {"path": "ملف.txt"}),
            ("present_ui", tafel),
            ("AskUserQuestion", {"questions": [frage], "notes_placeholder": "ملاحظات"}),
        ],
    ),
    Turn("شكرًا، أتابع بهذا العمود.", []),
)


demo._INTENTS.insert(0, ("add a chart", lambda seen, match: tour(seen)))


def prepare() -> dict[str, Any]:
    """Write a long file; the names that a notebook of pictures holds."""
    import pandas as pd

    lines = (f"{n},Month-to-month,{n % 70},{n % 90}\n" for n in range(16_000))
    Path("long.csv").write_text("id,contract,tenure,charges\n" + "".join(lines))
    names: dict[str, Any] = {"plan": plan, "df": pd.read_csv("customers.csv")}
    exec(DRAW, names)
    return names
