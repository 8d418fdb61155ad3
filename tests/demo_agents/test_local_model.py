"""The demo's model: a prompt decides the answer, sentence by sentence."""

from __future__ import annotations

import pytest

from gitsync.demo_agents.local_model import answer, order_of

PROMPT = (
    "You sort tickets. Give each one a queue (billing, technical, other) and an urgency from 1 to 4.\n"
    "When a ticket is about money, hand it to billing with the order number."
)


@pytest.mark.parametrize(
    ("question", "lines"),
    [
        ("I was charged twice", ["Queue: billing", "Urgency: 2", "Next: hand it to billing with the order number"]),
        ("The login page is broken", ["Queue: technical", "Urgency: 3"]),
        ("Do you have an office in Rome?", ["Queue: other", "Urgency: 4"]),
        ("The site is down", ["Queue: technical", "Urgency: 1"]),
    ],
)
def test_the_words_of_the_question_choose_among_those_of_the_prompt(question: str, lines: list[str]) -> None:
    assert answer(PROMPT, question).splitlines() == lines


def test_a_changed_prompt_changes_the_answer() -> None:
    question = "I was charged twice"
    assert answer(f"{PROMPT} Always apologize first.", question) == f"{answer(PROMPT, question)}\nNext: apologize first"
    assert answer("Be kind.", question) == "I have no instruction for this."
    assert answer("Greet the customer.", question) == "Hello, and thank you for your message."


def test_facts_of_tools_are_part_of_the_answer() -> None:
    assert answer("Be kind.", "Where is order 4712?", ["it is on its way"]) == "Fact: it is on its way"
    assert order_of("Where is order 4712?") == "4712"
    assert order_of("Where is it?") is None
