#!/opt/hirl/bin/python -IS
"""`probe /readyz [PORT]`: exit status 0 if this container answers 200. The image has no curl.

It runs every few seconds in every container. The image has no bytecode of the standard library, so
each import of it is compiled anew: only what is built into the interpreter is imported.
"""

import os
import sys
from _socket import socket

TIMEOUT_S = 4.0


def ask(path: str, port: int) -> str:
    """The first line of the answer."""
    connection = socket()
    connection.settimeout(TIMEOUT_S)
    try:
        connection.connect(("127.0.0.1", port))
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        answer = b""
        while b"\r\n" not in answer and (part := connection.recv(4096)):
            answer += part
    finally:
        connection.close()
    return answer.partition(b"\r\n")[0].decode(errors="replace")


path, *given = sys.argv[1:]
port = int(given[0] if given else os.environ["HIRL_METRICS_PORT"])
try:
    line = ask(path, port)
except OSError as error:
    line = str(error)
if line.split(" ")[1:2] != ["200"]:
    sys.exit(f"127.0.0.1:{port}{path}: {line}")
