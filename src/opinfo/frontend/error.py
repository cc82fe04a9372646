"""The one error of the front ends, and how foreign errors become one line."""

from __future__ import annotations


class FrontendError(ValueError):
    """A model file that cannot be read; the message is one line for a person."""


def one_line(error: BaseException, limit: int = 300) -> str:
    """The first line of an error that says something, cut to `limit` characters."""
    lines = [line.strip() for line in str(error).splitlines()]
    told = next((line for line in lines if line and not line.startswith(("---", "^"))), "")
    text = told or type(error).__name__
    return text if len(text) <= limit else text[: limit - 1] + "…"
