"""What goes on beside a run: nothing, messages that come in between, or sub-agents at work."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator

from .events import Event, Nested

__all__ = ["Background", "Inbox", "interleaved"]


class Background:
    """Nothing goes on beside the run; the base of what may."""

    def __init__(self) -> None:
        self.events: asyncio.Queue[Event | None] = asyncio.Queue()
        """What to tell the outside; None only wakes who waits."""
        self.live = False
        """Whether there may be something to tell."""

    def news(self) -> str:
        """What the model must be told before its next request; empty where nothing is new."""
        return ""

    async def more(self) -> str:
        """The next message to a model that would end its run; empty where it may.

        Raises :class:`~.errors.AgentError` where the run can't end well any more.
        """
        return ""

    async def close(self) -> str:
        """End what goes on, and wait until it has ended; names of what was cut."""
        return ""

    def cut(self, reason: str) -> None:
        """End what goes on, without waiting for its last step."""


class Inbox(Background):
    """Messages to a run under way: each is told before the next request, and no run ends over one."""

    def __init__(self) -> None:
        super().__init__()
        self._messages: list[str] = []

    def put(self, message: str) -> None:
        """Have a message told."""
        self._messages.append(message)

    def news(self) -> str:
        """The messages that are not told yet; told from now on."""
        messages, self._messages = self._messages, []
        return "\n\n".join(messages)

    async def more(self) -> str:
        """The same, for a run that would end."""
        return self.news()


async def interleaved(events: AsyncGenerator[Event, None], background: Background) -> AsyncGenerator[Event, None]:
    """A run's events with those of its background between them, as they come.

    The run goes on only when its last event was taken, just as a plain generator does. Closing this one, or an error,
    ends the background too.
    """
    taken, queue = asyncio.Event(), background.events

    async def pump() -> None:
        async for event in events:
            taken.clear()
            queue.put_nowait(event)
            await taken.wait()

    pumping = asyncio.create_task(pump())
    pumping.add_done_callback(lambda _: queue.put_nowait(None))
    try:
        while True:
            event = await queue.get()
            if event is None:
                if pumping.done():
                    break
                continue
            yield event
            if not isinstance(event, Nested):
                taken.set()
        await pumping
    except BaseException:
        pumping.cancel()
        while not pumping.done():  # cancelled again or not: the run can't be closed while its generator is at work
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({pumping})
        await background.close()
        raise
