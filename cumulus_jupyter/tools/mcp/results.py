"""What an MCP tool gave back, as an output: texts and pictures for the model."""

from __future__ import annotations

import json
from typing import Any

from ...agent.messages import Image
from ...agent.tool import Output
from ...agent.windowing import as_text

__all__ = ["output_of"]

_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")


def output_of(result: Any) -> Output:
    """A ``CallToolResult`` as an output; one that the server marked as an error is not ``ok``."""
    parts = [_part(block) for block in result.content]
    structured = result.structured_content
    if structured is not None and not any(_says(part, structured) for part in parts):
        parts.append(as_text(structured))
    if not parts:
        parts = ["the tool failed and said nothing" if result.is_error else "done (nothing was returned)"]
    images = sum(isinstance(part, Image) for part in parts)
    content: Any = parts if images else "\n".join(map(str, parts))
    return Output(content, {"images": images} if images else {}, ok=not result.is_error)


def _says(part: Any, structured: Any) -> bool:
    """Whether a text is the same JSON: servers send it twice, for clients that read only one."""
    if not isinstance(part, str):
        return False
    try:
        said = json.loads(part)
    except ValueError:
        said = part
    return bool(said == structured or {"result": said} == structured)


def _part(block: Any) -> str | Image:
    kind = block.type
    if kind == "text":
        return str(block.text)
    if kind == "image":
        return _picture(block.mime_type, block.data, "image")
    if kind == "audio":
        return f"[audio {block.mime_type}, {_size(block.data)}: not shown to you]"
    if kind == "resource_link":
        words = [block.title or block.name, block.mime_type, block.description]
        return f"[resource {block.uri}: {', '.join(word for word in words if word)}]"
    resource = block.resource
    if hasattr(resource, "text"):
        return f"[resource {resource.uri}]\n{resource.text}"
    return _picture(resource.mime_type or "", resource.blob, f"resource {resource.uri}")


def _picture(media_type: str, data: str, what: str) -> str | Image:
    if media_type in _PICTURES:
        return Image(media_type, "".join(data.split()))
    return f"[{what}, {media_type or 'unknown type'}, {_size(data)}: not shown to you]"


def _size(base64: str) -> str:
    return f"{len(base64) * 3 // 4:,} bytes"
