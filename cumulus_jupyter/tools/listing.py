"""What a model is told of tools and skills that it can reach: in the system prompt, and later as news."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..agent.tool import Tool
from ..agent.toolbox import Toolbox
from .skills import find_skills, skills_listing
from .tool_search import deferred_listing

__all__ = ["Told", "listing"]


def listing(toolbox: Toolbox) -> str:
    """Skills and deferred tools for the system prompt."""
    skills = skills_listing(find_skills(toolbox.root)) if toolbox.find("activate_skill") else ""
    return "\n\n".join(part for part in (skills, deferred_listing(toolbox)) if part)


@dataclass(slots=True)
class Told:
    """The tools and skills that a conversation was told of.

    Its system prompt stays as it is, byte for byte; what comes or changes later stands behind the next prompt.
    """

    tools: dict[str, Tool] = field(default_factory=dict)
    skills: dict[str, str] = field(default_factory=dict)
    faults: set[str] = field(default_factory=set)

    def take_up(self, toolbox: Toolbox, system: str) -> None:
        """Know what a stored conversation knows: bound tools, and what its system prompt lists."""
        listed = {line.partition(":")[0] for line in system.splitlines()}
        self.tools = {name: tool for name, tool in toolbox.tools.items() if not tool.deferred or name in listed}
        found = find_skills(toolbox.root).found
        self.skills = {name: skill.summary for name, skill in found.items() if name in listed}

    def news(self, toolbox: Toolbox) -> str:
        """What is not as it was told; told from now on. Empty where nothing is."""
        before, now = self.tools, toolbox.tools
        new = [f"- {tool.name}: {tool.summary}" for tool in toolbox.deferred if tool.name not in before]
        changed = [_usage(tool) for name, tool in now.items() if name in before and _differs(before[name], tool)]
        gone = [f"- {name}" for name in before if name not in now]
        skills = self._skills(toolbox)
        self.tools = dict(now)
        parts = {"new-deferred-tools": new, "changed-tools": changed, "removed-tools": gone, "new-skills": skills}
        return "\n".join("\n".join([f"<{name}>", *rows, f"</{name}>"]) for name, rows in parts.items() if rows)

    def _skills(self, toolbox: Toolbox) -> list[str]:
        if not toolbox.find("activate_skill"):
            return []
        now = {skill.name: skill.summary for skill in find_skills(toolbox.root).found.values() if skill.listed}
        before, self.skills = self.skills, now
        return [f"- {name}: {summary}" for name, summary in now.items() if before.get(name) != summary]

    def notices(self, toolbox: Toolbox) -> list[str]:
        """For the person, each once, in Markdown: skills that can't be loaded, and why."""
        faults = find_skills(toolbox.root).faults
        new = [(folder, reason) for folder, reason in faults if reason not in self.faults]
        self.faults |= {reason for _, reason in new}
        # As code: a file's name and what YAML says of its text must not be set as Markdown.
        return [f"a skill is left out: `{' '.join(reason.replace('`', chr(39)).split())}`" for _, reason in new]


def _differs(before: Tool, now: Tool) -> bool:
    """Whether a model would call it in another way."""
    if before is now or before.schema == now.schema:
        return False
    return before.description != now.description or before.schema() != now.schema()


def _usage(tool: Tool) -> str:
    from .arguments import shape

    schema = tool.schema()
    return f"- {tool.name}({shape(schema, schema.get('$defs', {}), top=True)}): {tool.summary}"
