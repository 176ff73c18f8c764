"""The dispatcher: verb → module, errors → one line and exit code 2."""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Sequence

from stressrag import __version__
from stressrag.errors import StressragError, nearest

VERBS = {
    "run": "evaluate one condition",
    "sweep": "evaluate all combinations of lists of settings",
    "audit": "the battery before deployment: baseline, attacks, defenses, report and gate file",
    "attack": "write an attack's poison documents to a file",
    "report": "write finished runs as one HTML page and a Markdown file",
    "reproduce": "run a paper's published experiments and compare the values",
    "compare": "hold finished runs against each other, query by query",
    "gate": "hold a finished run to rules, for continuous integration",
    "export": "write a finished run as TREC, CSV or LaTeX files",
    "aligned": "evaluate defenses of a RAG system from saved answers",
    "data": "list, describe, fetch and check collections",
}


def dispatch(argv: Sequence[str]) -> int:
    """Run a command line; the exit code."""
    for stream in (sys.stdout, sys.stderr):  # a console that cannot show a sign shows its number
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _dispatch(list(argv))
        sys.stdout.flush()
        return code
    except StressragError as e:
        print(f"error: {e}", file=sys.stderr)
        return 2
    except OSError as e:
        if isinstance(e, BrokenPipeError):  # the reader of our output has gone, as with | head
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 141
        print(f"error: {e.filename or 'output'}: {e.strerror or e}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as e:
        print("\ninterrupted; the same command goes on where it stopped", file=sys.stderr)
        return 143 if isinstance(e, Terminated) else 130


class Terminated(KeyboardInterrupt):
    """Asked to end by SIGTERM, which containers and schedulers send: all is left as after Ctrl-C."""


def on_sigterm(*_: object) -> None:
    """The handler of that signal."""
    raise Terminated


def _dispatch(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(usage())
        return 0 if argv else 2
    if argv[0] in ("-V", "--version"):
        print(f"stressrag {__version__}")
        return 0
    verb, rest = argv[0], argv[1:]
    if verb not in VERBS:
        raise StressragError(f"no verb {verb!r}; {nearest(verb, VERBS)}")
    module = importlib.import_module(f"stressrag.cli.{verb}")
    code: int = module.main(rest)
    return code


def usage() -> str:
    """What ``--help`` prints."""
    verbs = "\n".join(f"  {name:10} {what}" for name, what in VERBS.items())
    return f"""stressrag {__version__}: stress-tests of retrieval against poisoned corpora

usage: python -m stressrag VERB [setting=value …]

verbs:
{verbs}

examples:
  python -m stressrag sweep attack=partial retriever=hybrid
  python -m stressrag run retriever=lsa attack=query_only attack.budget=5
  python -m stressrag data list

python -m stressrag VERB --help shows the verb's settings."""
