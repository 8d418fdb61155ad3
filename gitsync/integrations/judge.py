"""One request to the model that judges answers of agents by rubrics."""

from __future__ import annotations

import json
import urllib.request

from gitsync.agents.evaluation.verdict import INSTRUCTIONS, decision
from gitsync.agents.model.evaluation import Judge
from gitsync.errors import ClusterUnavailable

_MOST_BYTES = 256 << 10
_ANSWER_TOKENS = 200


def ask_judge(judge: Judge, key: str, question: str, seconds: float) -> tuple[str, int]:
    """
    Return why the model rejects an answer, empty where it passes, and the tokens that judging took.

    Raise ClusterUnavailable where no answer comes in time, InvalidInput where it is not a verdict.
    """
    messages = [{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": question}]
    body = {
        "model": judge.id,
        "messages": messages,
        "temperature": 0,
        "max_tokens": _ANSWER_TOKENS,
        "response_format": {"type": "json_object"},
    }
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
    url = f"{judge.endpoint.rstrip('/')}/chat/completions"
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, json.dumps(body).encode(), headers), timeout=seconds
        ) as found:
            completion = json.loads(found.read(_MOST_BYTES))
    except (OSError, ValueError) as error:
        raise ClusterUnavailable(f"the model that judges did not answer: {error}") from error
    return decision(completion)
