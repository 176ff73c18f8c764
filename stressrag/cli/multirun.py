"""Hydra's own ways (``-m``, launchers, ``--cfg``) for ``run`` and ``sweep``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

from stressrag.errors import StressragError


def hydra_main(verb: str, argv: Sequence[str]) -> int:
    """Hand the words to ``hydra.main``, set up so that it writes nothing of its own but the sweep's list."""
    import hydra
    from hydra.core.config_store import ConfigStore
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    from stressrag.settings.overrides import parse
    from stressrag.settings.places import choices, config_folder
    from stressrag.settings.schema import Settings

    # Our words for a misspelt name are better than Hydra's; flags take values without an equals sign.
    parse([w for w in argv if "=" in w and not w.startswith(("-", "hydra.", "hydra/"))])
    GlobalHydra.instance().clear()  # left over where this process composed settings before
    ConfigStore.instance().store(name="schema", node=Settings)
    quiet = [
        "hydra.run.dir=.",
        "hydra.output_subdir=null",
        "hydra/job_logging=none",
        "hydra/hydra_logging=none",
        f"hydra.job.name={verb}",
        "hydra.job.chdir=false",
        "hydra.sweep.dir=runs/multirun",
        "hydra.sweep.subdir=.",
    ]
    words = list(argv)
    for i, word in enumerate(words):
        key, _, value = word.partition("=")
        if key == "dataset" and not set(value.split(",")) <= set(choices("dataset")):
            words[i] = f"dataset.name={value}"
    before, full = sys.argv, os.environ.get("HYDRA_FULL_ERROR")
    # argparse takes overrides in one run only, so flags (and what follows them) go first.
    flags = [w for w in words if w.startswith("-") or "=" not in w]
    sys.argv = ["stressrag", *flags, *(w for w in words if w not in flags), *quiet]
    os.environ["HYDRA_FULL_ERROR"] = "1"  # else Hydra prints its errors itself and exits with 1
    try:
        job = hydra.main(version_base="1.3", config_path=str(config_folder()), config_name="config")(
            _Job(verb)
        )
        job()
    except (HydraException, OmegaConfBaseException) as e:
        raise StressragError(str(e).strip().split("\n")[0]) from e
    finally:
        sys.argv = before
        if full is None:
            del os.environ["HYDRA_FULL_ERROR"]
    return 0


class _Job:
    """One job of a multirun; a class, so that launchers can send it to other processes."""

    def __init__(self, verb: str):
        self.verb = verb
        self.__name__ = verb
        self.__module__ = __name__

    def __call__(self, config: Any) -> None:
        """Run the composed config."""
        from stressrag.cli.conditions import report
        from stressrag.experiment.plan import plan_of
        from stressrag.settings.compose import from_hydra

        report(plan_of(self.verb, sys.argv[1:], [from_hydra(config)]))
