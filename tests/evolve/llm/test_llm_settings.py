"""Names, providers and addresses, and what a user may get wrong about them."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from evaluators.errors import UsageError
from evolve.llm.answer import is_other_model
from evolve.llm.classify import complaint_of, failure_of, shortened
from evolve.llm.errors import FailureKind, Scope
from evolve.llm.provider import endpoint
from evolve.llm.request import Message, Request
from evolve.llm.settings import LlmSettings, ModelName, ModelSettings, ProviderSettings

KEYS = {"OPENAI_API_KEY": "sk-0123456789", "ANTHROPIC_API_KEY": "sk-ant-0123456789"}


@pytest.mark.parametrize("text", ["", "gpt-5", "/gpt-5", "openai/", " / "])
def test_a_name_without_provider_or_model_is_refused_with_an_example(text):
    with pytest.raises(UsageError, match="provider/model"):
        ModelName.parse(text)


def test_only_the_first_slash_divides():
    name = ModelName.parse("openrouter/qwen/qwen3-coder")
    assert (name.provider, name.model) == ("openrouter", "qwen/qwen3-coder")
    assert str(name) == "openrouter/qwen/qwen3-coder"


def test_an_unknown_provider_names_the_known_ones_and_what_to_add():
    with pytest.raises(UsageError, match=r"anthropic.*\[llm\.providers\.acme\]"):
        endpoint(LlmSettings(), ModelName("acme", "m"), KEYS)


@pytest.mark.parametrize(
    ("name", "environment", "address"),
    [
        ("openai/m", {}, "https://api.openai.com/v1"),
        ("openai/m", {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}, "http://127.0.0.1:9/v1"),
        ("anthropic/m", {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}, "http://127.0.0.1:9"),
        ("ollama/m", {}, "http://127.0.0.1:11434/v1"),
    ],
)
def test_addresses(name, environment, address):
    assert endpoint(LlmSettings(), ModelName.parse(name), KEYS | environment).base_url == address


def test_a_users_own_provider_needs_an_address():
    settings = LlmSettings(providers={"mine": ProviderSettings(base_url="localhost:8000")})
    with pytest.raises(UsageError, match=r"llm\.providers\.mine\.base_url"):
        endpoint(settings, ModelName("mine", "m"), {})


def test_settings_know_no_key():
    with pytest.raises(ValidationError, match="api_key"):
        ProviderSettings.model_validate({"base_url": "http://x", "api_key": "sk-0123456789"})


def test_thinking_must_leave_room_for_an_answer():
    with pytest.raises(ValidationError, match="below max_output_tokens"):
        ModelSettings(name="anthropic/m", max_output_tokens=2000, thinking_tokens=2000)


def test_equal_questions_have_equal_digests():
    one = Request(ModelName("a", "b"), "s", (Message("user", "x"),), 1000)
    assert one.digest == Request(ModelName("a", "b"), "s", (Message("user", "x"),), 1000).digest
    assert one.digest != Request(ModelName("a", "c"), "s", (Message("user", "x"),), 1000).digest


@pytest.mark.parametrize(
    ("asked", "reported", "other"),
    [
        ("gpt-5", "gpt-5-2025-08-07", False),
        ("anthropic/claude-x", "claude-x-20260101", False),
        ("qwen3", "Qwen3", False),
        ("gpt-5", "", False),
        ("gpt-5", "gpt-4o-mini", True),
        ("claude-x", "llama-3", True),
    ],
)
def test_which_reports_mean_another_model(asked, reported, other):
    assert is_other_model(asked, reported) is other


@pytest.mark.parametrize(
    ("status", "body", "kind", "scope"),
    [
        (429, {"error": {"message": "slow down", "code": "rate_limit_exceeded"}}, "rate_limited", "retry"),
        (429, {"error": {"message": "x", "code": "insufficient_quota"}}, "no_credit", "provider"),
        (400, {"error": {"message": "Your credit balance is too low"}}, "no_credit", "provider"),
        (402, "", "no_credit", "provider"),
        (400, {"error": {"message": "maximum context length is 8192"}}, "too_long", "call"),
        (413, {"error": {"message": "Request exceeds the maximum size"}}, "too_long", "call"),
        (400, {"error": {"message": "flagged", "code": "invalid_prompt"}}, "blocked", "call"),
        (403, {"error": {"message": "no access"}}, "permission", "model"),
        (404, "<html><title>Not here</title></html>", "no_such_model", "model"),
        (400, {"detail": [{"loc": ["body", "x"], "msg": "nope"}]}, "bad_request", "call"),
        (418, None, "bad_request", "call"),
        (501, {"error": "never"}, "server_error", "call"),
        (503, {"error": {"message": "no capacity"}}, "overloaded", "retry"),
        (524, "", "server_error", "retry"),
    ],
)
def test_error_answers_are_classified(status, body, kind, scope):
    failure = failure_of(complaint_of(status, body), {}, 0.0)
    assert (failure.kind, failure.scope) == (FailureKind(kind), Scope(scope))
    assert "\n" not in failure.message


def test_a_servers_long_page_is_cut_to_a_line():
    failure = failure_of(complaint_of(500, "<p>" + "word\n" * 5000), {}, 0.0)
    assert "\n" not in failure.message
    assert len(shortened(failure.message)) == 400
