"""Other agents' loops in Python, and one written by hand on the vendors' SDKs, in the same run as ours.

Each contender streams the text of one whole run: it asks, calls the tool that it is told to, and goes on to the end.
What is measured is taken outside of them: when the tool is called, when a piece of text comes, what the server reads.
The peers are installed by the ``evidence`` extra; one that is missing is left out, and named.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import Any

from cumulus_jupyter import tool
from cumulus_jupyter.agent.events import TextDelta

from . import ours

__all__ = ["CONTENDERS", "PACKAGES", "Contender", "Tools"]

Tools = Sequence[Callable[..., Any]]
Contender = Callable[[str, str, Tools], AsyncIterator[str]]
"""From wire (``chat``, ``messages``), address and tools to the run's text; the first tool is the one that is called."""

_KEY = "loopback-key"
_ENDLESS = 100_000


async def cumulus(wire: str, url: str, tools: Tools) -> AsyncIterator[str]:
    """Ours: the first tool bound, the others deferred."""
    first, *rest = tools
    given = [tool(first, deferred=False), *(tool(each, deferred=True) for each in rest)]
    made = ours.agent(wire, url, None, given)
    async with aclosing(made.stream("go")) as events:
        async for event in events:
            if type(event) is TextDelta:
                yield event.text
    await made._session.provider.close()


async def sdk(wire: str, url: str, tools: Tools) -> AsyncIterator[str]:
    """The vendor's SDK with ``stream=True``, and a loop around it."""
    async for text in (_sdk_chat if wire == "chat" else _sdk_messages)(url, tools):
        yield text


async def _sdk_chat(url: str, tools: Tools) -> AsyncIterator[str]:
    import openai

    told: list[Any] = [{"type": "function", "function": {**_described(each)}} for each in tools]
    messages: list[Any] = [{"role": "user", "content": "go"}]
    async with openai.AsyncOpenAI(api_key=_KEY, base_url=f"{url}/v1", max_retries=0) as client:
        while True:
            text, call, arguments = "", None, ""
            stream = await client.chat.completions.create(
                model="m", messages=messages, tools=told, stream=True, stream_options={"include_usage": True}
            )
            async for chunk in stream:
                for choice in chunk.choices:
                    if choice.delta.content:
                        text += choice.delta.content
                        yield choice.delta.content
                    for part in choice.delta.tool_calls or ():
                        call = part if part.id else call
                        arguments += part.function.arguments or "" if part.function else ""
            if call is None:
                return
            result = await tools[0](**json.loads(arguments))
            function = {"name": call.function.name, "arguments": arguments}  # type: ignore[union-attr]
            asked = {"id": call.id, "type": "function", "function": function}
            messages.append({"role": "assistant", "content": text, "tool_calls": [asked]})
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


async def _sdk_messages(url: str, tools: Tools) -> AsyncIterator[str]:
    import anthropic

    told: list[Any] = []
    for each in tools:
        described = _described(each)
        told.append({**described, "input_schema": described["parameters"]})
        del told[-1]["parameters"]
    messages: list[Any] = [{"role": "user", "content": "go"}]
    async with anthropic.AsyncAnthropic(api_key=_KEY, base_url=url, max_retries=0) as client:
        while True:
            text, call, arguments = "", None, ""
            stream = await client.messages.create(
                model="m", messages=messages, tools=told, max_tokens=4_096, stream=True
            )
            async for event in stream:
                if event.type == "content_block_start" and event.content_block.type == "tool_use":
                    call = event.content_block
                elif event.type == "content_block_delta" and event.delta.type == "text_delta":
                    text += event.delta.text
                    yield event.delta.text
                elif event.type == "content_block_delta" and event.delta.type == "input_json_delta":
                    arguments += event.delta.partial_json
            if call is None:
                return
            given = json.loads(arguments)
            result = await tools[0](**given)
            used = {"type": "tool_use", "id": call.id, "name": call.name, "input": given}
            said = [{"type": "text", "text": text}, used] if text else [used]
            messages.append({"role": "assistant", "content": said})
            answer = {"type": "tool_result", "tool_use_id": call.id, "content": result}
            messages.append({"role": "user", "content": [answer]})


def _described(function: Callable[..., Any]) -> dict[str, Any]:
    made = tool(function)
    described = made if hasattr(made, "schema") else made.tool
    return {"name": described.name, "description": described.description, "parameters": described.schema()}


async def chatlas(wire: str, url: str, tools: Tools) -> AsyncIterator[str]:
    """posit-dev/chatlas."""
    from chatlas import ChatAnthropic
    from chatlas import ChatOpenAICompletions as ChatChat

    if wire == "chat":
        chat: Any = ChatChat(base_url=f"{url}/v1", model="m", api_key=_KEY)
    else:
        chat = ChatAnthropic(model="m", api_key=_KEY, kwargs={"base_url": url})
    for each in tools:
        chat.register_tool(each)
    async for text in await chat.stream_async("go"):
        yield text


async def pydantic_ai(wire: str, url: str, tools: Tools) -> AsyncIterator[str]:
    """pydantic/pydantic-ai; tools behind the first are deferred, where it can."""
    from pydantic_ai import Agent, PartDeltaEvent, PartStartEvent, Tool, UsageLimits

    if wire == "chat":
        from openai import AsyncOpenAI
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider

        client: Any = AsyncOpenAI(base_url=f"{url}/v1", api_key=_KEY)
        model: Any = OpenAIChatModel("m", provider=OpenAIProvider(openai_client=client))
    else:
        from anthropic import AsyncAnthropic
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        client = AsyncAnthropic(api_key=_KEY, base_url=url)
        model = AnthropicModel("m", provider=AnthropicProvider(anthropic_client=client))
    first, *rest = tools
    agent: Any = Agent(model, tools=[Tool(first), *(Tool(each, defer_loading=True) for each in rest)])
    async with client, agent.run_stream_events("go", usage_limits=UsageLimits(request_limit=None)) as events:
        async for event in events:
            if isinstance(event, PartStartEvent) and event.part.part_kind == "text" and event.part.content:
                yield event.part.content
            elif isinstance(event, PartDeltaEvent) and event.delta.part_delta_kind == "text":
                yield event.delta.content_delta


async def openai_agents(_wire: str, url: str, tools: Tools) -> AsyncIterator[str]:
    """openai/openai-agents-python, on Chat Completions."""
    from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
    from openai import AsyncOpenAI

    set_tracing_disabled(True)
    async with AsyncOpenAI(api_key=_KEY, base_url=f"{url}/v1") as client:
        model = OpenAIChatCompletionsModel("m", client)
        agent: Any = Agent(name="a", model=model, tools=[function_tool(each) for each in tools])
        async for event in Runner.run_streamed(agent, "go", max_turns=_ENDLESS).stream_events():
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                yield event.data.delta


CONTENDERS: dict[str, tuple[Contender, tuple[str, ...]]] = {
    "SDK by hand": (sdk, ("chat", "messages")),
    "chatlas": (chatlas, ("chat", "messages")),
    "pydantic-ai": (pydantic_ai, ("chat", "messages")),
    "openai-agents": (openai_agents, ("chat",)),
}
"""Contenders beside ours, and the wires that they speak."""
PACKAGES = {"chatlas": "chatlas", "pydantic-ai": "pydantic_ai", "openai-agents": "agents"}


def missing() -> list[str]:
    """Peers that are not installed."""
    return [name for name, package in PACKAGES.items() if importlib.util.find_spec(package) is None]
