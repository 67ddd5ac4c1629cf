"""The first line of a cell: options end where words begin, and words stay as typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from cumulus_jupyter import SettingsError
from cumulus_jupyter.jupyter.expand import expand
from cumulus_jupyter.jupyter.options import parse_cell

CASES = Path(__file__).parents[1] / "cases"


def split(name: str) -> list[tuple[str, str]]:
    """(line, body) of each cell of a case file that starts with %%agent."""
    cells = (CASES / name).read_bytes().decode().split("---\n")
    found = []
    for cell in cells:
        head, _, body = cell[cell.index("%%agent") :].partition("\n") if "%%agent" in cell else ("", "", "")
        if head:
            found.append((head.removeprefix("%%agent").strip("\r "), body))
    return found


def test_apostrophes_and_quotes_in_words_are_text() -> None:
    (line, body), *_ = split("K4-04.txt")
    options = parse_cell(line, body)
    assert options.run.model == "my-model"
    assert options.prompt == "don't stop at line 3's end\nexplain \"the quote"


def test_a_quoted_value_may_hold_spaces_and_accents() -> None:
    options = parse_cell(*split("K4-04.txt")[1])
    assert (options.run.cwd, options.run.max_turns, options.prompt) == ("my folder/café", 3, "hello")


def test_an_unknown_option_is_named_in_one_line() -> None:
    with pytest.raises(SettingsError, match=r"^%%agent has no option --no-such-flag[^\n]*$"):
        parse_cell(*split("K4-04.txt")[2])


def test_a_comment_behind_options_is_no_prompt() -> None:
    line, body = split("K4-05.txt")[2]
    options = parse_cell(line, body)
    assert (options.run.model, options.prompt) == ("m", "hello")


def test_crlf_leaves_no_carriage_return() -> None:
    options = parse_cell(*split("K4-05-crlf.txt")[0])
    assert options.run.model == "m"
    assert options.prompt.split("\n") == ["hello", "bye"]


def test_the_prompt_arrives_byte_for_byte() -> None:
    (line, body) = split("K4-02.txt")[0]
    text = parse_cell(line, body).prompt
    assert text == body.removesuffix("\n")
    assert expand(text, {"Out": {3: "x"}})[0] == text  # {{double}} does not evaluate


@pytest.mark.parametrize(
    ("line", "body", "says"),
    [
        ("", "", "needs a prompt"),
        ("-m", "hello", "needs a value"),
        ("--cwd 'open", "hello", "not closed"),
        ("--max-turns zero", "hello", "whole number"),
        ("--approve maybe", "hello", "ask or edits"),
        ("--answers {bad", "hello", "not JSON"),
        ("--quiet=yes", "hello", "no value"),
        ("--modell x", "hello", "did you mean --model"),
        ("-o 3x", "hello", "variable"),
    ],
)
def test_bad_input_is_one_line_that_says_what_to_do(line: str, body: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says) as caught:
        parse_cell(line, body)
    assert "\n" not in str(caught.value)


def test_two_dashes_end_the_options() -> None:
    assert parse_cell("-m x -- --not an option", "").prompt == "--not an option"


def test_answers_may_be_json_with_spaces() -> None:
    options = parse_cell('--answers {"Target": "a b"} go', "")
    assert (options.run.answers, options.prompt) == ('{"Target": "a b"}', "go")


def test_expressions_that_evaluate_are_replaced_and_told() -> None:
    text, told = expand("n is {{n + 1}}, {{nope}}, {n}", {"n": 1})
    assert text == "n is 2, {{nope}}, {n}"
    assert told == [("n + 1", "2")]


def test_a_long_value_is_cut_and_its_size_said() -> None:
    text, _ = expand("{{big}}", {"big": "x" * 30_000})
    assert text.startswith("x" * 20_000 + "… (30,000")
