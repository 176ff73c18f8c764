"""A defense of the user's, held to the contract."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np

from stressrag.defenses.base import Evasion, Judges, Pool
from stressrag.errors import StressragError
from stressrag.plugins import call_theirs
from stressrag.retrievers.ranking import NO_DOC, Ranking


class Own:
    """Wraps a defense made by the user's factory: what it does wrong becomes one line.

    Parameters
    ----------
    target : str
        Its import path or installed name.
    factory : callable
        Makes it, without arguments.

    Raises
    ------
    StressragError
        When it cannot be made, has no ``apply``, or says something of itself that is not to be understood.
    """

    def __init__(self, target: str, factory: Any):
        self.name, self.what = target, f"defense {target!r}"
        self.theirs = call_theirs(self.what, factory)
        if not callable(getattr(self.theirs, "apply", None)):
            raise StressragError(f"{self.what} has no method apply(pool, k)")
        self.judges: Judges = getattr(self.theirs, "judges", "all")
        if self.judges not in get_args(Judges):
            known = ", ".join(get_args(Judges))
            raise StressragError(f"{self.what}: judges is one of {known}, not {self.judges!r}")
        said = call_theirs(self.what, self.theirs.evasion) if hasattr(self.theirs, "evasion") else ""
        if not isinstance(said, Evasion | str):
            kind = type(said).__name__
            raise StressragError(
                f"{self.what}: evasion() gave {kind}, not an Evasion or a reason why there is none"
            )
        self._evasion = said

    def evasion(self) -> Evasion | str:
        """What it says of its adaptive attacker."""
        if isinstance(self._evasion, str) or self._evasion.admits is None:
            return self._evasion
        theirs = self._evasion.admits

        def admits(query: str, terms: Any, sets: np.ndarray, beside: str) -> np.ndarray:
            out = call_theirs(self.what, theirs, query, terms, sets, beside)
            array = np.asarray(out)
            if array.dtype != bool or array.shape != (len(sets),):
                raise StressragError(
                    f"{self.what}: admits gave {array.dtype} of shape {array.shape}, "
                    f"not bool of shape ({len(sets)},)"
                )
            return array

        return Evasion(
            admits,
            self._evasion.differing,
            self._evasion.natural,
            self._evasion.sources,
            self._evasion.weaker,
        )

    def apply(self, pool: Pool, k: int) -> Ranking:
        """Its ranking, checked: candidates of the pool, each once at most, and at least ``k`` places."""
        out = call_theirs(self.what, self.theirs.apply, pool, k)
        if not isinstance(out, Ranking):
            raise StressragError(f"{self.what}: apply gave {type(out).__name__}, not a Ranking")
        there = pool.candidates.docs
        least = min(k, there.shape[1])
        shaped = out.docs.ndim == 2 and out.docs.shape == out.scores.shape and len(out.docs) == len(there)
        if not shaped or out.docs.shape[1] < least:
            raise StressragError(
                f"{self.what}: apply gave documents of shape {out.docs.shape} for {len(there)} queries; "
                f"at least {least} places each are wanted (empty ones are -1)"
            )
        for row, found in enumerate(out.docs):
            shown = found[found != NO_DOC]
            if len(np.unique(shown)) < len(shown) or not np.isin(shown, there[row]).all():
                raise StressragError(
                    f"{self.what}: apply gave a document twice or one that is no candidate of query "
                    f"{pool.queries[row][:60]!r}"
                )
        return out
