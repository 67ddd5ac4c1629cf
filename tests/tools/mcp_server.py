"""A small MCP server over stdio, standard library only, for what the K6 server leaves out.

Tools: ``mix`` (every kind of content), ``fail``, ``ask`` (a form), ``count`` (progress, noise on stdout), ``wait``
(until it is cancelled), ``roots``, ``env``, ``look`` (read-only). Cancellations are written to the file that MCP_LEDGER
names.
"""

from __future__ import annotations

import json
import os
import sys

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
FORM = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "title": "City", "description": "Which city?"},
        "days": {"type": "integer", "minimum": 1, "maximum": 14},
        "unit": {"type": "string", "enum": ["c", "f"], "enumNames": ["Celsius", "Fahrenheit"], "default": "c"},
        "alarm": {"type": "boolean"},
    },
    "required": ["city", "days"],
}
TOOLS = [
    *({"name": name, "inputSchema": {"type": "object"}} for name in ("mix", "fail", "ask", "wait", "roots", "env")),
    {"name": "count", "description": "counts to n", "inputSchema": NUMBER},
    {"name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
]
MIX = [
    {"type": "text", "text": "a text"},
    {"type": "image", "data": PIXEL, "mimeType": "image/png"},
    {"type": "image", "data": PIXEL, "mimeType": "image/tiff"},
    {"type": "audio", "data": PIXEL, "mimeType": "audio/wav"},
    {"type": "resource", "resource": {"uri": "file:///notes.txt", "text": "the notes", "mimeType": "text/plain"}},
    {"type": "resource", "resource": {"uri": "file:///dot.png", "blob": PIXEL, "mimeType": "image/png"}},
    {"type": "resource_link", "uri": "file:///big.csv", "name": "big.csv", "description": "all rows"},
]


def send(**message: object) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(words: str, **more: object) -> dict[str, object]:
    return {"content": [{"type": "text", "text": words}], **more}


def call(number: object, params: dict[str, object], waiting: dict[str, object]) -> None:
    name, arguments = params["name"], params.get("arguments") or {}
    if name == "mix":
        send(id=number, result={"content": MIX, "structuredContent": {"rows": 3}})
    elif name == "fail":
        send(id=number, result=text("no such row", isError=True))
    elif name == "count":
        token = params["_meta"]["progressToken"]
        print("a banner that is no message")
        print('{"not": "a message either"}')
        for done in range(1, arguments["n"] + 1):
            values = {"progressToken": token, "progress": done, "total": arguments["n"], "message": f"row {done}"}
            send(method="notifications/progress", params=values)
        send(id=number, result=text("counted"))
    elif name == "ask":
        waiting["form"] = number
        send(id="form", method="elicitation/create", params={"message": "For the report:", "requestedSchema": FORM})
    elif name == "roots":
        waiting["roots"] = number
        send(id="roots", method="roots/list")
    elif name == "env":
        send(id=number, result=text(" ".join(sorted(os.environ))))
    elif name == "look":
        send(id=number, result=text("looked"))


DISCOVERED = {
    "resultType": "complete",
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}},
    "ttlMs": 0,
    "cacheScope": "private",
}


def newer(number: object, method: str | None, params: dict[str, object]) -> bool:
    """Answer as a server that knows the revision of 2026-07-28 only."""
    complete = {"resultType": "complete"}
    if method == "initialize":
        error = {"code": -32022, "message": "unsupported", "data": {"supported": ["2026-07-28"], "requested": "older"}}
        send(id=number, error=error)
    elif method == "server/discover":
        send(id=number, result=DISCOVERED)
    elif method == "tools/list":
        send(id=number, result={"tools": TOOLS, "ttlMs": 0, "cacheScope": "private", **complete})
    elif method == "tools/call" and params["name"] == "ask":
        form = {"method": "elicitation/create", "params": {"mode": "form", "message": "?", "requestedSchema": FORM}}
        answer = params.get("inputResponses")
        more = {"resultType": "input_required", "inputRequests": {"form": form}, "requestState": "s1"}
        send(id=number, result=text(json.dumps(answer["form"]), **complete) if answer else more)
    else:
        return False
    return True


def main() -> None:
    waiting: dict[str, object] = {}
    for line in sys.stdin:
        message = json.loads(line)
        number, method, params = message.get("id"), message.get("method"), message.get("params") or {}
        if os.environ.get("MCP_NEWER") and newer(number, method, params):
            continue
        if method == "initialize":
            info = {"name": "small", "version": "1"}
            result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
            send(id=number, result={**result, "instructions": "Ask it about rows."})
        elif method == "tools/list":
            send(id=number, result={"tools": TOOLS})
        elif method == "tools/call":
            call(number, params, waiting)
        elif method == "notifications/cancelled":
            with open(os.environ["MCP_LEDGER"], "a") as ledger:
                ledger.write(f"cancelled {params['requestId']}\n")
        elif method is None and number in waiting:  # the answer to a request of ours
            send(id=waiting.pop(number), result=text(json.dumps(message.get("result"))))
        elif number is not None:
            send(id=number, error={"code": -32601, "message": "no such method"})


if __name__ == "__main__":
    main()
