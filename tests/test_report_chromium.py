"""The report of a hostile collection in a real browser: nothing runs, nothing is fetched."""

from __future__ import annotations

import http.server
import shutil
import subprocess
import threading

import pytest
from test_report import sweep_over

import stressrag

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")


@pytest.fixture
def server():
    """A web server on this machine that notes what is asked of it."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(204)
            self.end_headers()

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as here:
        threading.Thread(target=here.serve_forever, daemon=True).start()
        yield here.server_port, asked
        here.shutdown()


def browse(page, profile) -> subprocess.CompletedProcess[str]:
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
    command += ["--enable-logging=stderr", "--virtual-time-budget=3000", "--dump-dom", page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def evil(port: int) -> str:
    at = f"http://127.0.0.1:{port}"
    return (
        f"<script>console.log('RAN');document.title='RAN'</script>"
        f"<img src='{at}/i' onerror=console.log('RAN')>"
        f"<link rel=stylesheet href='{at}/c'><style>@import '{at}/s'</style><iframe src='{at}/f'></iframe>"
        f"</title></style></desc></svg><svg onload=console.log('RAN')><image href='{at}/v'/></svg>\u202e"
    )


def test_nothing_runs_and_nothing_is_fetched(server, tmp_path):
    port, asked = server
    folder = stressrag.write_report(sweep_over(tmp_path, evil(port), resamples=200))
    done = browse(folder / "report.html", tmp_path / "profile")
    assert "Worst targets" in done.stdout
    assert f"&lt;img src='http://127.0.0.1:{port}/i'" in done.stdout
    assert "CONSOLE" not in done.stderr
    assert asked == []


def test_the_browser_would_tell(server, tmp_path):
    """The check can fail: the same text as markup runs and fetches."""
    port, asked = server
    (tmp_path / "bare.html").write_text(f"<body>{evil(port)}")
    done = browse(tmp_path / "bare.html", tmp_path / "profile")
    assert "RAN" in done.stderr
    assert "/i" in asked
