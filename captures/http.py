"""Requests to servers that the user named."""

from __future__ import annotations

from typing import Any
from urllib.request import HTTPRedirectHandler


class NoRedirects(HTTPRedirectHandler):
    """Follows no redirects: they could lead anywhere, with the credentials."""

    def redirect_request(self, *_: Any) -> None:
        return None
