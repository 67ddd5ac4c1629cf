"""Panels for tests: one of everything, one alive, one hostile, and a script that sends them."""

from __future__ import annotations

import json
from typing import Any

EVERYTHING: dict[str, Any] = {
    "summary": "What drives churn",
    "ui_id": "churn",
    "root": [
        {"component": "Heading", "value": "What drives churn", "level": 1},
        {
            "component": "Text",
            "value": "Short contracts and high monthly charges. Read with `pd.read_csv`; **11 rows** are left out.",
            "tone": "muted",
        },
        {
            "component": "Stack",
            "direction": "horizontal",
            "children": [
                {
                    "component": "Card",
                    "title": "Churn by contract",
                    "id": "by-contract",
                    "children": [
                        {"component": "Badge", "label": "p < 0.001", "status": "success"},
                        {
                            "component": "Table",
                            "columns": ["contract", "customers", "churn"],
                            "rows": [
                                ["month-to-month", "3,875", "43 %"],
                                ["one year", "1,473", "11 %"],
                                ["two years", "1,695", "3 %"],
                            ],
                        },
                    ],
                },
                {
                    "component": "Card",
                    "title": "Data",
                    "children": [
                        {
                            "component": "KeyValue",
                            "items": [
                                {"label": "rows used", "value": "7,032"},
                                {"label": "left out", "value": "11 without a charge"},
                                {"label": "period", "value": "2025-01 – 2025-12"},
                            ],
                        },
                        {
                            "component": "Card",
                            "children": [
                                {"component": "Heading", "value": "Checked", "level": 3},
                                {
                                    "component": "Stack",
                                    "direction": "horizontal",
                                    "gap": "sm",
                                    "children": [
                                        {"component": "Badge", "label": "no duplicates", "status": "success"},
                                        {"component": "Badge", "label": "11 gaps", "status": "warning"},
                                        {"component": "Badge", "label": "leak: end_date", "status": "danger"},
                                        {"component": "Badge", "label": "seed 7", "status": "info"},
                                        {"component": "Badge", "label": "n = 7,032"},
                                    ],
                                },
                            ],
                        },
                    ],
                },
            ],
        },
        {
            "component": "Alert",
            "title": "Not yet a cause",
            "body": "Charges and contract length move together.",
            "variant": "warning",
        },
        {"component": "CodeBlock", "code": "df.groupby('contract')['churn'].mean()", "language": "python"},
        {"component": "Divider"},
        {"component": "Link", "href": "https://example.org/method", "label": "How the test works"},
    ],
}

LIVE: dict[str, Any] = {
    "summary": "Smoothing",
    "ui_id": "smooth",
    "live": {"variables": ["window", "shape", "noisy", "title"], "function": "draw"},
    "root": [
        {
            "component": "Card",
            "title": "Moving average",
            "children": [
                {"component": "Text", "value": "Drag the window: wide is calm, narrow follows each point."},
                {"component": "Slider", "variable": "window", "min": 1, "max": 41, "value": 9, "label": "window"},
                {
                    "component": "Stack",
                    "direction": "horizontal",
                    "children": [
                        {"component": "Select", "variable": "shape", "options": ["sine", "steps"], "label": "signal"},
                        {"component": "Toggle", "variable": "noisy", "value": True, "label": "with noise"},
                    ],
                },
                {"component": "TextInput", "variable": "title", "value": "Signal", "label": "title", "run": False},
                {"component": "Button", "label": "Draw again"},
                {"component": "Output"},
            ],
        }
    ],
}

DRAW = """\
import numpy as np
import matplotlib.pyplot as plt
def draw(window, shape, noisy, title):
    x = np.linspace(0, 6, 200)
    y = np.sin(x) if shape == "sine" else np.sign(np.sin(2 * x))
    y = y + (np.random.default_rng(7).normal(0, .4, 200) if noisy else 0)
    fig, ax = plt.subplots(figsize=(6, 2.2))
    ax.plot(x, y, color="#9aa7b4", lw=.8)
    ax.plot(x, np.convolve(y, np.ones(window) / window, "same"), color="#1976d2", lw=2)
    ax.set_title(title, loc="left")
    ax.spines[["top", "right"]].set_visible(False)
    print(f"window {window}")
"""

PLAIN = "def draw(window, shape, noisy, title):\n    print(title, window, shape, noisy)\n    return 1 / (window - 41)"


def script(*calls: dict[str, Any]) -> str:
    """A cell that teaches the scripted model to send these panels, one a reply, when asked to show them."""
    return (
        "from cumulus_jupyter.providers import demo\nimport json\n"
        f"calls = json.loads({json.dumps(json.dumps(calls))})\n"
        "def script(seen, match):\n"
        "    at = seen.count('present_ui')\n"
        "    if at < len(calls):\n"
        "        return demo.Turn('', [('present_ui', calls[at])])\n"
        "    return demo.Turn('The panel shows it.', [])\n"
        "demo._INTENTS.insert(0, ('show', script))"
    )


EVIL = (
    "<script>window.hit=1</script><img src=x onerror='window.hit=2'><svg onload=window.hit=3>"
    "<style>*{position:fixed;inset:0;background:url(https://evil.example/a.png)}</style>"
    "![](https://evil.example/b.png) [x](javascript:window.hit=4) \x1b[31mred\x1b[0m \u202egnp.exe </div></details>"
)


def hostile() -> dict[str, Any]:
    """A live panel with hostile text in each field that takes text."""
    short = EVIL[:200]
    leaves = [
        {"component": "Text", "value": EVIL},
        {"component": "Text", "value": f"`{EVIL}` **{EVIL}**"},
        {"component": "Heading", "value": short},
        {"component": "Badge", "label": short},
        {"component": "KeyValue", "items": [{"label": short, "value": EVIL}]},
        {"component": "Table", "columns": [short], "rows": [[EVIL], ["x" * 500]]},
        {"component": "CodeBlock", "code": EVIL + "y" * 15_000},
        {"component": "Alert", "title": short, "body": EVIL},
        {
            "component": "Link",
            "href": "https://example.org/'><script>window.hit=5</script>".replace(" ", ""),
            "label": short,
        },
        {"component": "Slider", "variable": "a", "min": 0, "max": 1, "label": short},
        {"component": "Select", "variable": "b", "options": [short], "label": short},
        {"component": "Toggle", "variable": "c", "label": short},
        {"component": "TextInput", "variable": "d", "label": short, "value": EVIL, "placeholder": short},
        {"component": "Button", "label": short},
        {"component": "Output"},
    ]
    return {
        "summary": short,
        "root": [{"component": "Card", "title": short, "children": leaves}],
        "live": {"variables": ["a", "b", "c", "d"], "function": "draw"},
    }
