"""The web page at /: one HTML file, whose policy lets it contact only this service."""

import re
from base64 import b64encode
from hashlib import sha256

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from mtkit.documents.filling import REASONS
from mtkit.pages.page import render


def router() -> APIRouter:
    """Return the page's route."""
    routes = APIRouter()
    html = render("translate", {"title": "mtkit translate", "reasons": REASONS})
    headers = {
        "Content-Security-Policy": _policy(html),
        "Cache-Control": "no-cache",
        "X-Frame-Options": "DENY",
    }

    @routes.get("/", response_class=HTMLResponse, include_in_schema=False)
    async def page() -> HTMLResponse:
        return HTMLResponse(html, headers=headers)

    return routes


def _policy(html: str) -> str:
    """Return a policy that lets this page's own script and style run, and nothing else."""
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src {_hashes(html, 'script')}",
            f"style-src {_hashes(html, 'style')}",
            "connect-src 'self'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ]
    )


def _hashes(html: str, tag: str) -> str:
    contents = re.findall(f"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
    return " ".join(f"'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'" for content in contents)
