"""Where the API server is and how to prove who we are: a pod's ServiceAccount, or a kubeconfig.

A kubeconfig may hold a token, the path of one, or a client certificate. Plugins (`exec`) are not
run: a service has a ServiceAccount, and a program named by a file is a risk of its own.
"""

import base64
import os
import ssl
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from services._kit.errors import BadSettings

_POD: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_REREAD_S: Final = 60.0
"""The kubelet replaces a token when a fifth of its life is left, so at least 2 minutes before its
end."""


class Token:
    """A bearer token that may be rotated in its file."""

    def __init__(
        self, text: str = "", file: Path | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._text, self._file, self._now = text, file, now
        self._read_at: float | None = None

    def __repr__(self) -> str:
        return f"Token(file={self._file})"

    def current(self) -> str:
        """The token, read again each minute."""
        if self._file is not None and (
            self._read_at is None or self._now() - self._read_at >= _REREAD_S
        ):
            self._text, self._read_at = self._file.read_text().strip(), self._now()
        return self._text

    def refused(self) -> None:
        """Read it again before the next request."""
        self._read_at = None


@dataclass(frozen=True)
class Access:
    """An API server and our credentials for it."""

    server: str
    token: Token
    tls: ssl.SSLContext | None
    """None: the server is on loopback and speaks plain HTTP."""


def access_of(kubeconfig: str = "", environment: Mapping[str, str] = os.environ) -> Access:
    """Access by a kubeconfig, or by the pod's ServiceAccount if none is named."""
    return _of_file(Path(kubeconfig).expanduser()) if kubeconfig else _of_pod(environment)


def _of_pod(environment: Mapping[str, str]) -> Access:
    host, port = (environment.get(f"KUBERNETES_SERVICE_{name}", "") for name in ("HOST", "PORT"))
    token = _POD / "token"
    if not host or not token.is_file():
        raise BadSettings(
            "kubeconfig: expected the path of a kubeconfig, or a pod with a ServiceAccount token"
        )
    # An IPv6 address needs brackets in a URL.
    address = f"[{host}]" if ":" in host else host
    tls = ssl.create_default_context(cafile=str(_POD / "ca.crt"))
    return Access(f"https://{address}:{port or 443}", Token(file=token), tls)


def _of_file(path: Path) -> Access:
    try:
        found = yaml.safe_load(path.read_text())
        context = _named(found, "context", found["current-context"])
        cluster, user = _named(found, "cluster", context["cluster"]), {}
        if "user" in context:
            user = _named(found, "user", context["user"])
        server = str(cluster["server"]).rstrip("/")
    except (OSError, yaml.YAMLError, KeyError, TypeError, StopIteration) as error:
        raise BadSettings(
            f"kubeconfig: {path} is no kubeconfig with a current context ({error!r})"
        ) from None
    if "exec" in user or "auth-provider" in user:
        raise BadSettings(
            f"kubeconfig: {path} runs a plugin; name one with a token or a certificate"
        )
    if cluster.get("insecure-skip-tls-verify"):
        raise BadSettings(
            f"kubeconfig: {path} does not verify the server's certificate; add its CA"
        )
    return Access(server, _token(user, path.parent), _tls(server, cluster, user, path))


def _named(config: Mapping[str, Any], kind: str, name: str) -> dict[str, Any]:
    entry = next(one for one in config[f"{kind}s"] if one["name"] == name)
    found: dict[str, Any] = entry[kind]
    return found


def _token(user: Mapping[str, Any], folder: Path) -> Token:
    if "tokenFile" in user:
        return Token(file=folder / user["tokenFile"])
    return Token(str(user.get("token", "")))


def _tls(
    server: str, cluster: Mapping[str, Any], user: Mapping[str, Any], path: Path
) -> ssl.SSLContext | None:
    if not server.startswith("https://"):
        if server.startswith("http://127.0.0.1:"):
            return None
        raise BadSettings(f"kubeconfig: {path}: expected https://, got {server}")
    authority = _bytes(cluster, "certificate-authority", path.parent)
    context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    certificate = _bytes(user, "client-certificate", path.parent)
    if certificate is not None:
        # The ssl module loads a certificate from a file only; this one is private and short-lived.
        with tempfile.NamedTemporaryFile() as file:
            file.write(certificate + b"\n" + (_bytes(user, "client-key", path.parent) or b""))
            file.flush()
            context.load_cert_chain(file.name)
    return context


def _bytes(entry: Mapping[str, Any], name: str, folder: Path) -> bytes | None:
    """A field that is inline in base64, or the path of a file."""
    if f"{name}-data" in entry:
        return base64.b64decode(entry[f"{name}-data"])
    return (folder / entry[name]).read_bytes() if name in entry else None
