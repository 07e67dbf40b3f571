"""What a management controller answers: an order is taken when its status says so, a question needs an object."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from gputop.domain.problem import Problem, ProblemKind
from gputop.power.http import Site, request


class Controller(BaseHTTPRequestHandler):
    """Answers everything with a page for people."""

    def _answer(self) -> None:
        page = b"<html>Operation successful</html>"
        self.send_response(200 if self.path != "/refused" else 500)
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    do_GET = do_POST = _answer

    def log_message(self, *words: Any) -> None:
        """Say nothing."""


@pytest.fixture
def site() -> Iterator[Site]:
    server = HTTPServer(("127.0.0.1", 0), Controller)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield Site(url=f"http://127.0.0.1:{server.server_port}", insecure=True)
    server.shutdown()
    server.server_close()


def test_an_order_that_is_answered_with_a_page_was_taken(site: Site) -> None:
    assert request(site, "POST", "/reset", {}) == {}


def test_an_order_that_is_answered_with_an_error_was_not(site: Site) -> None:
    found = request(site, "POST", "/refused", {})
    assert isinstance(found, Problem)
    assert found.summary == "HTTP 500"


def test_a_question_that_is_answered_with_a_page_is_not_answered(site: Site) -> None:
    found = request(site, "GET", "/redfish/v1/Systems")
    assert isinstance(found, Problem)
    assert found.kind is ProblemKind.PROTOCOL
