"""``python -m tests.benchmarks [--quick] [--peers] [--browser] [--only WORD] [--json FILE]``: figures, as a table.

Each figure stands beside an anchor that was measured in turns with it, since absolute times say little on another
machine. The exit status is 0 whatever the figures are: they are to be read, not to be tested.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from . import agents, cell, deferred, deltas, first_token, load_ext, parallel, rounds
from .table import Row, as_json, table

Group = Callable[[bool], Iterator[Row]]

GROUPS: dict[str, Group] = {
    "rounds": rounds.rows,
    "deferred": deferred.rows,
    "deltas": deltas.rows,
    "first token": first_token.rows,
    "parallel": parallel.rows,
    "agents": agents.rows,
    "load_ext": load_ext.rows,
    "cell": cell.rows,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--browser", action="store_true", help="measure JupyterLab in Chromium too (two minutes)")
    parser.add_argument(
        "--peers", action="store_true", help="beside other agents' loops too (`pip install .[evidence]`)"
    )
    parser.add_argument("--only", default="", metavar="WORD", help="only groups whose name holds the word")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there as well")
    options = parser.parse_args()
    groups = dict(GROUPS)
    if options.peers:
        from . import against

        groups["peers"] = against.rows
    if options.browser:
        from . import browser

        groups["browser"] = browser.rows
    found: list[Row] = []
    for name, measure in groups.items():
        if options.only in name:
            started = time.monotonic()
            found += measure(options.quick)
            print(f"{name}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    print(table(found))
    if options.json:
        options.json.write_text(json.dumps(as_json(found), indent=1) + "\n")


if __name__ == "__main__":
    main()
