"""A local model in a GGUF file, run by llama.cpp: xllamacpp or llama-cpp-python, whichever is installed."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
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
from stressrag.errors import StressragError
from stressrag.records.files import file_hash, write_json

_Run = Callable[[dict[str, Any]], dict[str, Any]]


class GGUF(Generator):
    """A model in a GGUF file; greedy decoding, on the processor unless the runtime finds better.

    Parameters
    ----------
    path : str or Path
        The file.
    name : str
        For records and reports; by default the file's.
    n_ctx : int
        Tokens of prompt and reply together; a longer prompt is an error, never cut.
    threads : int, optional
        By default the processors of this machine.

    Raises
    ------
    StressragError
        When there is no such file. That no runtime is installed is said with the first prompt, so that
        cached answers can be read without one.
    """

    def __init__(
        self, path: str | Path, *, name: str = "", n_ctx: int = 4096, threads: int | None = None
    ) -> None:
        self.path = Path(path).expanduser()
        if not self.path.is_file():
            raise StressragError(f"there is no GGUF file {self.path}")
        self.name = name or self.path.stem
        self.n_ctx = int(n_ctx)
        self.threads = int(threads or os.cpu_count() or 1)
        if self.n_ctx < 1 or self.threads < 1:
            raise StressragError("n_ctx and threads of a gguf generator must be 1 or more")
        self._identity: dict[str, Any] | None = None
        self._run: _Run | None = None
        self._one = threading.Lock()

    def identity(self) -> dict[str, Any]:
        if self._identity is None:
            self._identity = {
                "kind": "gguf",
                "sha256": _remembered_hash(self.path),
                "n_ctx": self.n_ctx,
                "temperature": 0,
            }
        return dict(self._identity)

    def complete(self, prompt: Prompt) -> Completion:
        request: dict[str, Any] = {
            "messages": messages(prompt),
            "max_tokens": prompt.max_tokens,
            "temperature": 0,
        }
        if prompt.stop:
            request["stop"] = list(prompt.stop)
        if prompt.schema:
            request["schema"] = json.loads(prompt.schema)
        with self._one:  # one context, one prompt at a time
            if self._run is None:
                self._run = _loaded(self.path, self.n_ctx, self.threads)
            try:
                reply = self._run(request)
            except (ValueError, RuntimeError) as e:
                raise self._problem(str(e)) from e
        if error := reply.get("error"):
            raise self._problem(str(error.get("message", error)))
        return self._completion(reply)

    def _completion(self, reply: dict[str, Any]) -> Completion:
        choice, usage = reply["choices"][0], reply.get("usage") or {}
        finish = "length" if choice["finish_reason"] == "length" else "stop"
        used, written = usage.get("prompt_tokens"), usage.get("completion_tokens")
        return Completion(choice["message"].get("content") or "", finish, used, written)

    def _problem(self, message: str) -> Failed:
        line = f"{self.name}: {one_line(message)}"
        if "context" in message and ("exceed" in message or "Requested tokens" in message):
            return Refused(
                f"{line}; the prompt does not fit, set n_ctx (generator.context) above {self.n_ctx}"
            )
        return Failed(line)


def _loaded(path: Path, n_ctx: int, threads: int) -> _Run:
    """The model, as a function from a request to a reply.

    Raises
    ------
    StressragError
        When no runtime is installed or the file is none that it can read.
    """
    try:
        with contextlib.suppress(ImportError):
            return _xllamacpp(path, n_ctx, threads)
        return _llama_cpp(path, n_ctx, threads)
    except ImportError as e:
        raise StressragError(
            "GGUF files need xllamacpp or llama-cpp-python: pip install 'stressrag[gguf]'"
        ) from e
    except (ValueError, RuntimeError, OSError) as e:
        raise StressragError(f"cannot load {path}: {one_line(e)}") from e


def _xllamacpp(path: Path, n_ctx: int, threads: int) -> _Run:
    import xllamacpp  # type: ignore[import-untyped, import-not-found, unused-ignore]

    p = xllamacpp.CommonParams()
    p.model.path = str(path)
    p.n_ctx, p.n_parallel, p.verbosity = n_ctx, 1, 0
    p.cpuparams.n_threads = p.cpuparams_batch.n_threads = threads
    p.sampling.temp = 0.0
    # What is left of an earlier prompt changes the batches, and with them the last bits of a score.
    p.cache_prompt = False
    server = xllamacpp.Server(p)

    def run(request: dict[str, Any]) -> dict[str, Any]:
        if schema := request.pop("schema", None):
            form = {"name": "reply", "schema": schema}
            request["response_format"] = {"type": "json_schema", "json_schema": form}
        reply: dict[str, Any] = server.handle_chat_completions(request)
        return reply

    return run


def _llama_cpp(path: Path, n_ctx: int, threads: int) -> _Run:
    import llama_cpp  # type: ignore[import-untyped, import-not-found, unused-ignore]

    model = llama_cpp.Llama(str(path), n_ctx=n_ctx, n_threads=threads, verbose=False)

    def run(request: dict[str, Any]) -> dict[str, Any]:
        if schema := request.pop("schema", None):
            request["response_format"] = {"type": "json_object", "schema": schema}
        model.reset()
        reply: dict[str, Any] = model.create_chat_completion(**request)
        return reply

    return run


def _remembered_hash(path: Path) -> str:
    """SHA-256 of a big file, kept beside it under its size and time; where that cannot be, made anew."""
    stat = path.stat()
    now = {"size": stat.st_size, "mtime_ns": stat.st_mtime_ns}
    beside = path.with_name(f"{path.name}.sha256.json")
    with contextlib.suppress(OSError, ValueError, AttributeError):
        row = json.loads(beside.read_bytes())
        if now == {k: row.get(k) for k in now} and isinstance(row.get("sha256"), str):
            return str(row["sha256"])
    found = file_hash(path)
    with contextlib.suppress(StressragError):  # a folder that may only be read
        write_json(beside, {**now, "sha256": found})
    return found
