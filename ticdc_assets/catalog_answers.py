"""What the refusals of a catalog mean: the libraries raise errors of their own kinds, in Python and in Java."""

from __future__ import annotations

from typing import Final

_LOGIN: Final = "Check `token` or `credential` in catalog.properties: the catalog takes none that is wrong or expired."
_RIGHTS: Final = "Let the catalog's user make namespaces and tables, and read, write and drop them."
_BUSY: Final = "The catalog fails or is overloaded: wait until it answers."
_ADDRESS: Final = "Check `catalog.uri` and the network, and that the catalog runs."
_REQUEST: Final = "Check `catalog.uri` and `catalog.warehouse`; the catalog's log has the reason."
_DATABASE: Final = "Check `catalog.uri`: host, port, user, password and database; and that the database runs."
_CREDENTIALS: Final = "Set credentials for the catalog in the environment, such as AWS_PROFILE."

_ADVICE: Final = {
    # pyiceberg
    **dict.fromkeys(("UnauthorizedError", "AuthorizationExpiredError", "OAuthError"), _LOGIN),
    "ForbiddenError": _RIGHTS,
    **dict.fromkeys(("ServerError", "ServiceUnavailableError", "TooManyRequestsError"), _BUSY),
    **dict.fromkeys(("BadRequestError", "RESTError"), _REQUEST),
    # requests, thrift
    **dict.fromkeys(("ConnectionError", "ConnectTimeout", "ReadTimeout", "SSLError", "TTransportException"), _ADDRESS),
    "OperationalError": _DATABASE,  # SQLAlchemy
    # botocore
    **dict.fromkeys(("NoCredentialsError", "PartialCredentialsError"), _CREDENTIALS),
    "EndpointConnectionError": _ADDRESS,
    # Java
    "NotAuthorizedException": _LOGIN,
    "ForbiddenException": _RIGHTS,
    **dict.fromkeys(("ServiceFailureException", "ServiceUnavailableException"), _BUSY),
    "HttpHostConnectException": _ADDRESS,
}


def advice_for_catalog(kind: str) -> str | None:
    """What to do after an error of this class of a catalog's library; None for an unknown one."""
    return _ADVICE.get(kind)
