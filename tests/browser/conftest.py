import http.server
import shutil
import subprocess
import threading

import pytest

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--hide-scrollbars",
)


@pytest.fixture(scope="module")
def server():
    """A web server on this machine; `paths` are those it was asked for."""
    paths = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            paths.append(self.path)
            self.send_error(404)

        def log_message(self, *arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        made.paths = paths
        yield made
        made.shutdown()


@pytest.fixture
def chromium(tmp_path):
    """A function that opens a file in a new browser and returns what this prints."""
    program = shutil.which("chromium")
    assert program, "chromium is needed: make test-browser"

    def open_file(path, *flags):
        done = subprocess.run(
            [program, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", *flags, path.as_uri()],
            capture_output=True,
            text=True,
            timeout=600,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return open_file
