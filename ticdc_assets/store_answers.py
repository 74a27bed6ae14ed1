"""What the refusals of an object store mean.

pyarrow reports all of them as OSError; only the text has the code. A code that pyarrow does not know is "UNKNOWN"
there: its name follows if the answer has a body, else only the HTTP status is known.
"""

from __future__ import annotations

import re
from typing import Final

_CODE: Final = re.compile(r"AWS Error ([A-Z_]+)|HTTP (?:status|response code) ([0-9]{3})")
_UNKNOWN: Final = "UNKNOWN"
_NAME: Final = re.compile(r"Unable to parse ExceptionName: (\w+)")
_STATUS: Final = re.compile(r"HTTP status (\d{3})")
_OF_JAVA: Final = re.compile(r"\(Service: S3, Status Code: (\d{3})")
_NO_CREDENTIALS: Final = "Unable to load credentials"
_BUSY_STATUS: Final = re.compile(r"HTTP status (429|5\d\d)")

_EXPIRED: Final = "The credentials have expired or belong to another session: give new ones."
_REGION: Final = "Check the region and the endpoint of the store."
_BUSY: Final = "The store fails or is overloaded: wait until it answers."
_ADVICE: Final = {
    **dict.fromkeys(("ExpiredToken", "ExpiredTokenException", "InvalidToken", "TokenRefreshRequired"), _EXPIRED),
    **dict.fromkeys(
        ("INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT_MATCH", "INVALID_SIGNATURE", "INVALID_CLIENT_TOKEN_ID"),
        "Check the access key and the secret key.",
    ),
    **dict.fromkeys(("PermanentRedirect", "AuthorizationHeaderMalformed", "HTTP status 301"), _REGION),
    **dict.fromkeys(("SLOW_DOWN", "INTERNAL_FAILURE", "SERVICE_UNAVAILABLE", "THROTTLING"), _BUSY),
    "ACCESS_DENIED": "Let the credentials read, write, list and delete there.",
    "NETWORK_CONNECTION": "Check the endpoint of the store and the network.",
    "REQUEST_TIME_TOO_SKEWED": "Set this machine's clock.",
    # The answer to a HEAD request has no body, and S3 gives both reasons as this status.
    "HTTP status 400": "Check whether the credentials have expired, and the region of the store.",
}


def store_code(error: OSError) -> str | None:
    """The code that the object store gave in an error of pyarrow, else its HTTP status; None without one."""
    text = str(error)
    found = _CODE.search(text)
    if found is None:
        return None
    if found[1] not in (_UNKNOWN, None):
        return found[1]
    named = _NAME.search(text)
    status = _STATUS.search(text)
    return named[1] if named else f"HTTP status {status[1]}" if status else found[1] or found[2]


def answer_to_java(message: str) -> str | None:
    """What to do after the answer of S3 that a message of Amazon's Java library quotes; None where it quotes none."""
    if _NO_CREDENTIALS in message:
        return "Set credentials in object_store, or in the environment of this process and of Spark's workers."
    found = _OF_JAVA.search(message)
    if found is None:
        return None
    return _ADVICE["ACCESS_DENIED"] if found[1] == "403" else advice_for(f"HTTP status {found[1]}")


def advice_for(code: str) -> str | None:
    """What to do after an answer with this code; None for an unknown one."""
    return _BUSY if _BUSY_STATUS.fullmatch(code) else _ADVICE.get(code)
