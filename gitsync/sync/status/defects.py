"""Exceptions that are defects of gitsync, as errors to report."""

from __future__ import annotations

import hashlib
import logging
import traceback

from gitsync.errors import UnexpectedError

_log = logging.getLogger(__name__)


def unexpected_error(fault: Exception, key: str) -> UnexpectedError:
    """Return the error to report for a defect in a reconcile of an Application, and log its traceback with its id."""
    frames = [(frame.filename.rpartition("/")[2], frame.name) for frame in traceback.extract_tb(fault.__traceback__)]
    kind = type(fault).__name__
    error = UnexpectedError(kind, hashlib.sha256(repr((kind, frames)).encode()).hexdigest()[:8])
    _log.error("defect %s", error.id, exc_info=fault, extra={"application": key})
    return error
