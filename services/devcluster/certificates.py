"""A private authority and a certificate for servers on this machine."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

from models.inputs.errors import InputError
from services.devcluster.processes import HOST

_DAYS: Final = "825"
"""Validity of certificates. macOS refuses a server's certificate that is valid for longer."""


def create(folder: Path, stem: str, common_name: str) -> None:
    """Write ca.pem, ca.key, STEM.crt and STEM.key; the certificate is for loopback."""
    folder.mkdir(parents=True, exist_ok=True)
    # Private whatever mode openssl gives to the files of keys.
    folder.chmod(0o700)
    # Clients verify the address that they connect to. Both usages: a broker is a server to clients,
    # and a client to the other brokers.
    extensions = folder / f"{stem}.ext"
    extensions.write_text(
        f"subjectAltName=IP:{HOST},DNS:localhost\nextendedKeyUsage=serverAuth,clientAuth\n"
    )
    # Without a passphrase, because servers start unattended; the folder is private.
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    _openssl(
        *("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem"),
        *("-days", _DAYS, "-subj", "/CN=hirl-private-authority"),
        folder=folder,
    )
    _openssl(
        *("req", *key, "-keyout", f"{stem}.key", "-out", f"{stem}.csr"),
        *("-subj", f"/CN={common_name}"),
        folder=folder,
    )
    _openssl(
        *("x509", "-req", "-in", f"{stem}.csr", "-out", f"{stem}.crt", "-days", _DAYS),
        *("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", extensions.name),
        folder=folder,
    )


def _openssl(*arguments: str, folder: Path) -> None:
    program = shutil.which("openssl")
    if program is None:
        raise InputError("certificates are created with openssl, which is missing: install openssl")
    done = subprocess.run(  # noqa: S603  (our own command line)
        [program, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise InputError(f"openssl {arguments[0]} failed: {done.stderr}")
