"""The tools that every agent has, as plain functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..agent.tool import Tool

__all__ = ["builtin_tools"]


def builtin_tools() -> list[Tool]:
    """The built-in tools, eager ones first in the order that a model sees them."""
    from .agents import check_agents, spawn_agent, spawn_agents, steer_agent
    from .ask import ask_user_question
    from .files import edit_file, read_file, write_file
    from .notebook import notebook_edit, notebook_read
    from .notebook_run import notebook_run
    from .panel import present_ui
    from .python import run_python
    from .results import read_result
    from .search import list_files, search_files
    from .shell import run_shell
    from .skills import activate_skill
    from .todo import update_todos
    from .tool_search import tool_search
    from .variables import inspect_variables

    return [
        read_file,
        write_file,
        edit_file,
        list_files,
        search_files,
        run_python,
        ask_user_question,
        present_ui,
        update_todos,
        tool_search,
        activate_skill,
        notebook_read,
        notebook_edit,
        notebook_run,
        run_shell,
        inspect_variables,
        read_result,
        spawn_agent,
        spawn_agents,
        check_agents,
        steer_agent,
    ]
