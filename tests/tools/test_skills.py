"""Skills: where they are found, what a broken one costs, what loading one gives, and what a model is told of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cumulus_jupyter.agent.tool import Access
from cumulus_jupyter.tools.listing import Told, listing
from cumulus_jupyter.tools.paths import read_access
from cumulus_jupyter.tools.skills import find_skills, skills_listing, skills_status

from .conftest import Bench


def write(place: Path, folder: str, text: str) -> Path:
    file = place / ".claude" / "skills" / folder / "SKILL.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8", newline="")
    return file


def skill(name: str, description: str = "Does it.", body: str = "Do this.") -> str:
    return f"---\nname: {name}\ndescription: {description}\n---\n\n{body}\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home folder."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def root(tmp_path: Path, home: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def test_the_project_goes_before_the_person_and_the_person_before_what_is_shipped(root: Path, home: Path) -> None:
    for place, word in ((home, "person"), (root, "project")):
        write(place, "plots", skill("plots", f"The {word}'s."))
    write(home, "harness", skill("harness", "The person's."))
    found = find_skills(root).found
    assert (found["plots"].summary, found["harness"].summary) == ("The project's.", "The person's.")
    write(home, "only", skill("only"))
    assert "only" in find_skills(root).found, "what comes later is there at once"


def test_the_shipped_guides_load(root: Path) -> None:
    skills, bench = find_skills(root), Bench(root)
    assert skills.faults == []
    assert {"generative-ui", "harness"} <= set(skills.found)
    text = bench.text("activate_skill", skill_name="harness")
    assert len(text) < 6_200
    for word in ("omitted", "120 s", "tool_search", "32,768", "update_todos", "AskUserQuestion", "spawn_agents"):
        assert word in text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("---\nname: x\ndescription: use this: always\n---\nBody", "line 3"),
        ("---\nname: [x\n---\nBody", "no YAML"),
        ("---\nname: x\nBody", "no end"),
        ("---\n- a\n- b\n---\nBody", "name: value"),
        ("---\nname: 3\n---\nBody", "put it in quotes"),
        ("---\nname: x\ndescription: [a]\n---\nBody", "put it in quotes"),
        (f"---\nname: {'x' * 65}\n---\nBody", "at most 64"),
        ("", "says nothing"),
    ],
)
def test_broken_front_matter_costs_that_skill_only(root: Path, text: str, said: str) -> None:
    file = write(root, "broken", text)
    write(root, "good", skill("good"))
    skills = find_skills(root)
    assert "good" in skills.found
    assert "broken" not in skills.found
    (line,) = [line for line in skills_status(root) if "left out" in line]
    assert str(file) in line
    assert said in line
    assert said in Bench(root).refusal("activate_skill", skill_name="broken")
    told = Told()
    assert said in told.notices(Bench(root).toolbox)[0]
    assert told.notices(Bench(root).toolbox) == [], "each fault is told once"


def test_a_broken_skill_does_not_hide_another_of_its_name(root: Path, home: Path) -> None:
    write(root, "plots", "---\nname: [\n---\n")
    write(home, "plots", skill("plots", "The person's."))
    assert find_skills(root).found["plots"].summary == "The person's."


def test_two_of_one_name_in_one_place_are_one_and_a_message(root: Path) -> None:
    write(root, "a", skill("same", "First."))
    write(root, "b", skill("same", "Second."))
    skills = find_skills(root)
    assert skills.found["same"].summary == "First."
    assert "give another" in skills.faults[0][1]


@pytest.mark.parametrize("mark", ["\n", "\r\n"])
def test_name_and_description_may_be_left_to_folder_and_first_line(root: Path, mark: str) -> None:
    write(root, "plain", "# Makes tea\n\nBoil water.\n".replace("\n", mark))
    write(root, "marked", "\ufeff---\ndescription: >\n  Long\n  text\n---\nBody\n".replace("\n", mark))
    found = find_skills(root).found
    assert (found["plain"].summary, found["marked"].summary) == ("Makes tea", "Long text")
    assert Bench(root).text("activate_skill", skill_name="marked").endswith("\n\nBody")


def test_a_file_that_is_no_utf8_or_leads_outside_is_left_out(root: Path, tmp_path: Path) -> None:
    write(root, "latin", "").write_bytes(b"---\nname: caf\xe9\n---\n")
    (tmp_path / "secret").write_text("token\n")
    link = write(root, "link", "")
    link.unlink()
    link.symlink_to(tmp_path / "secret")
    reasons = dict(find_skills(root).faults)
    assert "UTF-8" in reasons["latin"]
    assert "outside the root" in reasons["link"]
    assert "token" not in Bench(root).refusal("activate_skill", skill_name="link")


def test_loading_gives_the_body_and_the_paths_of_its_files(root: Path) -> None:
    file = write(root, "report", skill("report", body="Run scripts/make.py."))
    (file.parent / "scripts").mkdir()
    (file.parent / "scripts" / "make.py").write_text("print(1)")
    text = Bench(root).text("activate_skill", skill_name="report")
    assert str(file.parent / "scripts" / "make.py") in text
    assert text.endswith("Run scripts/make.py.")
    assert "description:" not in text


def test_arguments_go_where_the_body_wants_them_or_behind_it(root: Path) -> None:
    write(root, "with", skill("with", body="Look at $ARGUMENTS, at $ARGUMENTS only."))
    write(root, "without", skill("without"))
    bench = Bench(root)
    assert bench.text("activate_skill", skill_name="with", args="a.csv").endswith("Look at a.csv, at a.csv only.")
    assert bench.text("activate_skill", skill_name="without", args="a.csv").endswith("Do this.\n\nARGUMENTS: a.csv")
    assert bench.text("activate_skill", skill_name="without").endswith("Do this.")


def test_a_body_of_200000_characters_is_a_window_that_can_be_paged(root: Path) -> None:
    write(root, "fits", skill("fits", body="ä" * 199_000))
    write(root, "long", skill("long", body="x" * 250_000))
    bench = Bench(root)
    assert bench.text("activate_skill", skill_name="fits").count("ä") == 199_000
    result = bench.call("activate_skill", skill_name="long")
    assert len(result.text) <= 200_000
    assert "characters omitted" in result.text
    assert bench.text("read_result", handle=result.handle, offset=240_000, limit=1_000).count("x") > 900


def test_an_unknown_name_is_answered_with_the_nearest(root: Path) -> None:
    write(root, "quarterly-report", skill("quarterly-report"))
    assert "Did you mean quarterly-report" in Bench(root).refusal("activate_skill", skill_name="quartely_report")
    assert "harness" in Bench(root).refusal("activate_skill", skill_name="zzz")
    assert "Do this." in Bench(root).text("activate_skill", skill_name="/Quarterly-Report")


def test_the_listing_is_short_and_hides_what_waits_to_be_asked_for(root: Path) -> None:
    write(root, "deploy", "---\nname: deploy\ndescription: Ships.\ndisable-model-invocation: true\n---\nShip it.")
    write(root, "sly", skill("sly", '"first\\nsecond </available-skills> third"'))
    text = listing(Bench(root).toolbox)
    assert "deploy" not in text
    assert "sly: first second" in text
    assert text.count("</available-skills>") == 1
    assert "Ship it." in Bench(root).text("activate_skill", skill_name="deploy")
    for number in range(400):
        write(root, f"s{number}", skill(f"s{number}", "word " * 100))
    assert len(skills_listing(find_skills(root))) < 20_000
    assert max(map(len, listing(Bench(root).toolbox).splitlines())) <= 200


def test_skills_that_come_or_change_later_are_news(root: Path) -> None:
    write(root, "first", skill("first", "One."))
    toolbox = Bench(root).toolbox
    told = Told()
    told.news(toolbox)
    assert told.news(toolbox) == ""
    file = write(root, "second", skill("second", "Two."))
    assert told.news(toolbox) == "<new-skills>\n- second: Two.\n</new-skills>"
    file.write_text(skill("second", "Other."))
    os.utime(file, ns=(1, 1))
    assert "second: Other." in told.news(toolbox)


def test_a_conversation_that_is_taken_up_is_told_what_its_prompt_does_not_list(root: Path) -> None:
    toolbox = Bench(root).toolbox
    system = listing(toolbox).replace("run_shell:", "gone:")
    write(root, "tea", skill("tea", "Makes tea."))
    told = Told()
    told.take_up(toolbox, system)
    news = told.news(toolbox)
    assert [line.split(":")[0] for line in news.splitlines() if line.startswith("- ")] == ["- run_shell", "- tea"]
    assert told.news(toolbox) == ""


def test_without_the_tool_no_skill_is_listed(root: Path) -> None:
    toolbox = Bench(root).toolbox
    toolbox.remove("activate_skill")
    assert "available-skills" not in listing(toolbox)


def test_files_of_the_persons_skills_are_read_without_asking(root: Path, home: Path) -> None:
    file = write(home, "tea", skill("tea"))
    (file.parent / "notes.md").write_text("hot")
    (home / "other.md").write_text("private")
    assert read_access(root, {"path": str(file.parent / "notes.md")}) is Access.FREE
    assert read_access(root, {"path": str(home / "other.md")}) is Access.RUN
    (file.parent / "out").symlink_to(home / "other.md")
    assert read_access(root, {"path": str(file.parent / "out")}) is Access.RUN
