"""Any endpoint that speaks OpenAI's ``/chat/completions``: vLLM, Ollama, llama.cpp, hosted models."""

from __future__ import annotations

import http.client
import json
import random
import ssl
import threading
import time
import urllib.error
from collections.abc import Callable, Mapping
from typing import Any

from stressrag.aligned.generators.base import (
    Completion,
    Failed,
    Generator,
    Prompt,
    Refused,
    messages,
    one_line,
)
from stressrag.aligned.generators.endpoint import Reply, Retry, checked_url, is_private, post, read_key, scrub
from stressrag.aligned.generators.refusals import is_setup, is_sure, refuses
from stressrag.errors import StressragError

_FATAL = {401: "the key is missing or wrong", 403: "access is denied", 404: "no such model or path"}
_AGAIN = (408, 409, 425, 429)
_LONGEST_WAIT = 300.0
_LONG_WAIT, _MANY_TRIES = 10.0, 3  # from here on a wait is told
_QUIET = 5.0  # seconds between two such lines: prompts in flight are often put off together


class OpenAIChat(Generator):
    """A model behind an OpenAI-compatible endpoint.

    Parameters
    ----------
    model : str
        As the server names it.
    base_url : str
        Up to what ``/chat/completions`` follows, such as ``http://localhost:11434/v1``; without credentials.
    key_env : str, optional
        The environment variable that holds the key; without one no key is sent. By default
        ``OPENAI_API_KEY``, but not over plain http to another machine, where it could be overheard.
    name : str, optional
        For records and reports; by default the last part of the model's.
    revision : str
        The version of the model, as far as you know it, since servers do not say; part of the identity.
    seed : int, optional
        Passed on to the server.
    timeout : float
        Seconds for one request, from first to last byte.
    attempts : int
        How often a prompt is tried before it counts as failed.
    concurrency : int
        Requests in flight.
    body : mapping, optional
        Further fields of the request, such as ``{"reasoning_effort": "low"}``; ``None`` takes a field out.
        Part of the identity, so no place for secrets.
    backoff : float
        Seconds before the second try; doubled before each further one.

    Attributes
    ----------
    notes : list of str
        What the server would not do, such as to hold to a schema.
    """

    def __init__(
        self,
        model: str,
        base_url: str = "https://api.openai.com/v1",
        *,
        key_env: str | None = None,
        name: str = "",
        revision: str = "",
        seed: int | None = None,
        timeout: float = 120.0,
        attempts: int = 6,
        concurrency: int = 4,
        body: Mapping[str, Any] | None = None,
        backoff: float = 1.0,
        sleep: Callable[[float], object] = time.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        if not model:
            raise StressragError("an openai generator needs the name of a model")
        self.base_url = checked_url(base_url)
        self.model = model
        self.name = name or model.rstrip("/").rsplit("/", 1)[-1]
        self.concurrency = int(concurrency)
        self.notes: list[str] = []
        self._identity: dict[str, Any] = {
            "kind": "openai",
            "base_url": self.base_url,
            "model": model,
            "revision": revision,
            "temperature": 0,
            "seed": seed,
            "body": dict(body or {}),
        }
        self._key_env = key_env if key_env is not None else _default_key(self.base_url)
        self._timeout, self._attempts, self._backoff = float(timeout), max(1, int(attempts)), float(backoff)
        self._sleep, self._jitter = sleep, jitter
        self._reached = False
        self._told, self._told_pause = -_QUIET, 0.0
        self._holds_schemas = True
        self._noting = threading.Lock()

    def __repr__(self) -> str:
        return f"OpenAIChat(model={self.model!r}, base_url={self.base_url!r})"

    def identity(self) -> dict[str, Any]:
        return dict(self._identity)

    def complete(self, prompt: Prompt) -> Completion:
        schema = bool(prompt.schema) and self._holds_schemas
        reply = self._tried(prompt, schema)
        if schema and reply.status in (400, 422, 501):
            reply = self._tried(prompt, False)
            if reply.status < 300:
                self._note_no_schema()
        if reply.status >= 300:
            said = f"{self._where()} answers {reply.status}: {reply.reason}"
            if refuses(reply, self.proven):
                raise Refused(said, sure=is_sure(reply))
            raise Failed(said)
        assert reply.completion is not None  # below 300 there is one
        return reply.completion

    def _note_no_schema(self) -> None:
        with self._noting:
            if self._holds_schemas:
                self.notes.append(f"{self._where()} refuses response_format; schemas are not sent")
            self._holds_schemas = False

    def _where(self) -> str:
        return f"model {self.model!r} at {self.base_url}"

    def _tried(self, prompt: Prompt, schema: bool) -> Reply:
        """The reply, after as many tries as it takes; one of 4xx is handed back."""
        wait, problem, tries = self._backoff, Retry(""), 0
        while tries < self._attempts and (problem.after or 0.0) <= _LONGEST_WAIT:
            if tries:
                # Without jitter requests that failed together would come again together.
                pause = max(problem.after or 0.0, wait * (0.5 + 0.5 * self._jitter()))
                self._tell(problem, pause, tries)
                self._sleep(pause)
                wait = min(wait * 2, 60.0)
            tries += 1
            try:
                return self._once(prompt, schema)
            except Retry as e:
                problem = e
        if problem.unreached and not self._reached:
            raise StressragError(f"{self._where()} cannot be reached: {problem}; is the server running?")
        later = f"; it asks to wait {problem.after:.0f} s" if (problem.after or 0.0) > _LONGEST_WAIT else ""
        raise Failed(f"{self._where()}: {problem} (tried {tries} times{later})")

    def _tell(self, problem: Retry, pause: float, tries: int) -> None:
        """Say why nothing comes, where it takes long."""
        if pause <= _LONG_WAIT and tries < _MANY_TRIES:
            return
        with self._noting:
            now = time.monotonic()
            if now - self._told < _QUIET and pause <= self._told_pause:
                return
            self._told, self._told_pause = now, pause
        self.say(
            f"  {self._where()}: {problem}; waiting {pause:.0f} s before try {tries + 1} of {self._attempts}"
        )

    def _once(self, prompt: Prompt, schema: bool) -> Reply:
        key = read_key(self._key_env)
        status, headers, raw = self._sent(self._body(prompt, schema), key)
        self._reached = True
        if status < 300:
            try:
                completion = _completion(raw, key)
            except Refused as e:
                raise Refused(f"{self._where()}: {e}") from None
            self.proven = True
            return Reply(status, "", completion)
        reason = _reason(raw, key)
        if status == 429 and "insufficient_quota" in reason:
            raise StressragError(f"{self._where()}: the quota is used up: {reason}")
        if status in _AGAIN or (status >= 500 and not (schema and status == 501)):
            raise Retry(f"the server answers {status}: {reason}", after=headers.get("Retry-After"))
        refused = refuses(Reply(status, reason), self.proven)
        if status in _FATAL and not refused:
            hint = self._about_key(key) if status in (401, 403) else ""
            raise StressragError(f"{self._where()} answers {status}, {_FATAL[status]}: {reason}{hint}")
        if refused and not schema and not self.proven and is_setup(reason):
            raise StressragError(f"{self._where()} answers {status}: {reason}")
        if status < 400:
            raise StressragError(f"{self._where()} redirects ({status}); set base_url to where the API is")
        return Reply(status, reason)

    def _about_key(self, key: str) -> str:
        """Where the key comes from, and whether there is one; never the key."""
        if not self._key_env:
            return "; no key is sent over plain http unless key_from names its environment variable"
        if key:
            return f"; the key is read from ${self._key_env}"
        return (
            f"; no key was sent: ${self._key_env} is not set (set it, or name another variable with key_from)"
        )

    def _sent(self, body: bytes, key: str) -> tuple[int, Mapping[str, str], bytes]:
        try:
            return post(f"{self.base_url}/chat/completions", body, key, self._timeout)
        except TimeoutError:
            problem = Retry(f"no whole reply within {self._timeout:g} s")
        except http.client.HTTPException as e:
            problem = Retry(f"the reply is cut off or no HTTP ({type(e).__name__})")
        except urllib.error.URLError as e:
            if isinstance(e.reason, ssl.SSLCertVerificationError):
                raise StressragError(f"{self._where()}: the certificate is not valid: {e.reason}") from None
            if isinstance(e.reason, TimeoutError):
                problem = Retry(f"no connection within {self._timeout:g} s", unreached=True)
            else:
                problem = Retry(scrub(one_line(e.reason), key), unreached=True)
        except OSError as e:
            problem = Retry(f"the connection broke ({e.strerror or type(e).__name__})")
        raise problem

    def _body(self, prompt: Prompt, schema: bool) -> bytes:
        body: dict[str, Any] = {
            "model": self.model,
            "messages": messages(prompt),
            "max_tokens": prompt.max_tokens,
            "temperature": 0,
            "stream": False,
        }
        if self._identity["seed"] is not None:
            body["seed"] = self._identity["seed"]
        if prompt.stop:
            body["stop"] = list(prompt.stop)
        if schema:
            form = {"name": "reply", "schema": json.loads(prompt.schema), "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        body |= self._identity["body"]
        return json.dumps({k: v for k, v in body.items() if v is not None}).encode()


def _default_key(base_url: str) -> str:
    return "OPENAI_API_KEY" if base_url.startswith("https:") or is_private(base_url) else ""


def _completion(raw: bytes, key: str) -> Completion:
    """The completion in the body of a reply.

    Raises
    ------
    Retry
        When the body is no JSON or holds no text.
    Refused
        When the server says that it withholds the text.
    """
    try:
        row = json.loads(raw)
        choice = row["choices"][0]
        message = choice["message"]
        content = message.get("content")
        if isinstance(content, list):
            content = "".join(part.get("text") or "" for part in content)
        if content is None:
            content = message.get("refusal")
        usage = row.get("usage") or {}
        if not isinstance(content, str) and choice.get("finish_reason") == "content_filter":
            raise Refused("the reply is withheld (content_filter)")
        if not isinstance(content, str):
            raise Retry("the reply holds no text")
        finish = "length" if choice.get("finish_reason") == "length" else "stop"
        counts = [
            n if isinstance(n := usage.get(f"{k}_tokens"), int) else None for k in ("prompt", "completion")
        ]
    except (ValueError, RecursionError):
        raise Retry("the reply is no JSON") from None
    except (LookupError, TypeError, AttributeError):
        raise Retry("the reply has no choices with a message") from None
    return Completion(scrub(content, key if len(key) >= 12 else ""), finish, *counts)


def _reason(raw: bytes, key: str) -> str:
    """What the body of an error says, on one line."""
    text = raw.decode("utf-8", "replace")
    try:
        error = json.loads(text)
        error = error.get("error", error.get("detail", error))
        text = " ".join(str(error[k]) for k in ("code", "message") if error.get(k)) or text
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
        pass
    return one_line(scrub(text, key)) or "no reason given"
