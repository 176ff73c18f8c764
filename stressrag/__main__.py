"""``python -m stressrag VERB …``"""

from __future__ import annotations

import signal
import sys


def main() -> int:
    """Entry point of the console script."""
    if sys.version_info >= (3, 14):
        print(
            "error: stressrag runs on Python 3.10 to 3.13; hydra-core 1.3 breaks on 3.14. Use one of these.",
            file=sys.stderr,
        )
        return 2
    from stressrag.cli.main import dispatch, on_sigterm

    signal.signal(signal.SIGTERM, on_sigterm)
    return dispatch(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
