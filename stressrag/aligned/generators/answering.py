"""Answering many prompts with one generator: each distinct prompt once, ever, and several at a time."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from stressrag.aligned.generators.base import (
    REFUSED,
    Completion,
    Failed,
    Generator,
    Prompt,
    Refused,
    one_line,
)
from stressrag.aligned.generators.cache import Cache, Entry, prompt_hash
from stressrag.aligned.generators.contract import check_completion
from stressrag.errors import StressragError

__all__ = ["Answering", "prompt_hash"]

_GIVE_UP = 10  # failures in a row, with no answer between, after which the generator counts as down
_CHARACTERS = 4.0  # a token, about, until the generator has said how many it counts


class Answering:
    """A generator with a cache of its answers.

    Parameters
    ----------
    generator : Generator
        What answers.
    cache_folder : str or Path
        Where answers are kept; several processes and generators may share it.
    concurrency : int, optional
        Prompts in flight; by default what the generator says of itself.
    per_minute : float, optional
        The most prompts that are begun in a minute (retries of a generator come on top).
    progress : callable, optional
        Called with the prompts dealt with so far and all that are to be asked.
    on_refusal : {"stop", "record"}
        Of a prompt that the generator refuses for good (:class:`~stressrag.aligned.generators.base.Refused`):
        ``stop`` counts it as failed; ``record`` takes an empty completion with finish ``refused`` for its
        answer, which is cached like any other. ``stop`` asks prompts that were recorded so once more.

    Attributes
    ----------
    calls, hits : int
        Prompts that the generator was asked, and distinct prompts that the cache answered.
    seconds : float
        The time the generator took, added up over its calls.
    """

    def __init__(
        self,
        generator: Generator,
        cache_folder: str | Path,
        *,
        concurrency: int | None = None,
        per_minute: float | None = None,
        progress: Callable[[int, int], None] | None = None,
        on_refusal: str = "stop",
    ) -> None:
        self.generator = generator
        self.identity = generator.identity()
        self.concurrency = generator.concurrency if concurrency is None else concurrency
        if self.concurrency < 1:
            raise StressragError(f"the concurrency must be 1 or more, not {self.concurrency}")
        if per_minute is not None and not per_minute > 0:
            raise StressragError(f"the prompts per minute must be above 0, not {per_minute}")
        self._records = on_refusal == "record"
        self._answers = False  # whether it is known to answer anything
        self.calls = self.hits = 0
        self.seconds = 0.0
        self._cache = Cache(cache_folder)
        self._pace = _Pace(60 / per_minute if per_minute else 0.0)
        self._progress = progress or (lambda done, all_: None)
        self._counting = threading.Lock()

    def complete(self, prompts: Sequence[Prompt]) -> list[Completion]:
        """The answers, in the order of the prompts.

        Raises
        ------
        StressragError
            When some prompts could not be answered (the others are cached by then), or no prompt can be.
        """
        keys = [prompt_hash(self.identity, p) for p in prompts]
        distinct = dict(zip(keys, prompts, strict=True))
        found: dict[str, Completion] = {}
        for key in distinct:
            if entry := self._known(key):
                found[key] = entry.completion
                self._answers = self._answers or entry.completion.finish != REFUSED
        self.hits += len(found)
        if self._answers:
            with contextlib.suppress(AttributeError):  # a frozen class of the user's own
                self.generator.proven = True
        missing = [(key, prompt) for key, prompt in distinct.items() if key not in found]
        failures: list[str] = []
        refused = self._ask_all(missing, found, failures) if missing else 0
        if failures:
            reasons = list(dict.fromkeys(failures))
            more = f" (and {len(reasons) - 1} other reasons)" if len(reasons) > 1 else ""
            raise StressragError(
                f"{len(failures)} of {len(distinct)} prompts could not be answered by {self.generator.name}: "
                f"{reasons[0]}{more}; all other answers are cached: run the same command again"
                + self._hint(refused)
            )
        return [found[key] for key in keys]

    def _known(self, key: str) -> Entry | None:
        """The cached entry, unless it only says that the prompt was refused and that is not to count."""
        entry = self._cache.get(key)
        return None if entry and entry.completion.finish == REFUSED and not self._records else entry

    def _hint(self, refused: int) -> str:
        if not refused or self._records:
            return ""
        were = "1 was" if refused == 1 else f"{refused} were"
        return f"; {were} refused for good: on_refusal=record takes an empty answer for such and goes on"

    def _ask_all(
        self, missing: list[tuple[str, Prompt]], found: dict[str, Completion], failures: list[str]
    ) -> int:
        """Ask what is missing; prompts are handed out as others end, so that stopping is quick.

        Returns how many were refused.
        """
        todo = iter(missing)
        in_a_row = done = refused = 0
        last = ""
        running: dict[Future[Completion], str] = {}
        with ThreadPoolExecutor(self.concurrency) as pool:
            while True:
                while len(running) < self.concurrency and (next_ := next(todo, None)):
                    running[pool.submit(self._ask, *next_)] = next_[0]
                if not running:
                    return refused
                ended, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in ended:
                    key = running.pop(future)
                    try:
                        found[key] = future.result()
                        in_a_row, self._answers = 0, True
                    except Failed as e:
                        final = isinstance(e, Refused)
                        refused += final
                        # One prompt is at fault where others were answered; else it may be all of them.
                        in_a_row = 0 if isinstance(e, Refused) and e.sure and self._answers else in_a_row + 1
                        if final and self._records:
                            found[key] = self._refused(key)
                        else:
                            failures.append(str(e))
                        last = str(e)
                    done += 1
                    self._progress(done, len(missing))
                if in_a_row >= _GIVE_UP:
                    so_far = (
                        "all answers so far are cached: run the same command again"
                        if self._answers
                        else "nothing was answered yet: see whether the endpoint takes such prompts at all"
                    )
                    raise StressragError(
                        f"{self.generator.name} failed {in_a_row} times in a row, last: {last}; "
                        f"{so_far}{self._hint(refused)}"
                    )

    def _refused(self, key: str) -> Completion:
        """Record that a prompt was refused, in the place of its answer."""
        completion = Completion("", REFUSED)
        self._cache.put(key, self.identity, Entry(completion))
        return completion

    def _ask(self, key: str, prompt: Prompt) -> Completion:
        with self._cache.lock(key):
            # Another process may have answered it while this one waited.
            if entry := self._known(key):
                with self._counting:
                    self.hits += 1
                return entry.completion
            self._pace.wait()
            begin = time.perf_counter()
            try:
                completion = self._generate(prompt)
            finally:
                seconds = time.perf_counter() - begin
                with self._counting:
                    self.calls += 1
                    self.seconds += seconds
            self._cache.put(key, self.identity, Entry(completion, seconds))
            return completion

    def _generate(self, prompt: Prompt) -> Completion:
        try:
            completion = self.generator.complete(prompt)
        except (Failed, StressragError):
            raise
        except Exception as e:  # whatever a generator of the user's own raises
            raise Failed(f"{type(e).__name__}: {one_line(e)}") from e
        check_completion(completion, self.generator.name)
        return completion

    def estimate(
        self,
        prompts: Sequence[Prompt],
        *,
        input_price: float | None = None,
        output_price: float | None = None,
    ) -> dict[str, Any]:
        """What answering would take; nothing is asked.

        Parameters
        ----------
        prompts : sequence of Prompt
            As for :meth:`complete`.
        input_price, output_price : float, optional
            Of a million tokens of prompts and of replies.

        Returns
        -------
        dict
            ``distinct`` prompts, of them ``cached`` and ``to_ask``; for the latter ``prompt_tokens`` and
            ``completion_tokens`` (judged by the cached prompts, else four characters a token and as many as
            a reply may have), ``seconds`` (``None`` before any answer has been seen) and ``cost`` (``None``
            without both prices).
        """
        distinct = {prompt_hash(self.identity, p): p for p in prompts}
        seen = [(p, e) for key, p in distinct.items() if (e := self._known(key))]
        cached = {id(p) for p, _ in seen}
        todo = [p for p in distinct.values() if id(p) not in cached]
        shown = sum(_length(p) for p in todo) / _per_token(seen)
        replied = [e.completion.completion_tokens for _, e in seen]
        counted = [n for n in replied if n is not None]
        each = sum(counted) / len(counted) if counted else None
        written = sum(p.max_tokens if each is None else min(each, p.max_tokens) for p in todo)
        per_call = sum(e.seconds for _, e in seen) / len(seen) if seen else None
        if per_call is None and self.calls:
            per_call = self.seconds / self.calls
        if per_call is not None and seen:  # longer prompts take longer
            per_call *= (_mean([_length(p) for p in todo]) or 0) / (_mean([_length(p) for p, _ in seen]) or 1)
        prices = input_price is not None and output_price is not None
        return {
            "distinct": len(distinct),
            "cached": len(seen),
            "to_ask": len(todo),
            "prompt_tokens": round(shown),
            "completion_tokens": round(written),
            "seconds": None if per_call is None else per_call * len(todo) / self.concurrency,
            "cost": (shown * (input_price or 0) + written * (output_price or 0)) / 1e6 if prices else None,
        }


def _length(prompt: Prompt) -> int:
    return len(prompt.system) + len(prompt.user)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _per_token(seen: Sequence[tuple[Prompt, Entry]]) -> float:
    """Characters of a prompt per token, as counted so far."""
    counted = [(p, n) for p, e in seen if (n := e.completion.prompt_tokens)]
    return sum(_length(p) for p, _ in counted) / sum(n for _, n in counted) if counted else _CHARACTERS


class _Pace:
    """Lets callers through one by one, at least ``gap`` seconds apart."""

    def __init__(self, gap: float) -> None:
        self.gap = gap
        self._next = 0.0
        self._lock = threading.Lock()

    def wait(self) -> None:
        if not self.gap:
            return
        with self._lock:
            now = time.monotonic()
            at = max(now, self._next)
            self._next = at + self.gap
        if at > now:
            time.sleep(at - now)
