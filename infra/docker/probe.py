#!/opt/hirl/bin/python -IS
"""`probe /readyz [PORT]`: exit status 0 if this container answers 200. The image has no curl."""

import os
import sys
from urllib.error import URLError
from urllib.request import urlopen

path, *port = sys.argv[1:]
url = f"http://127.0.0.1:{port[0] if port else os.environ['HIRL_METRICS_PORT']}{path}"
try:
    urlopen(url, timeout=4).close()
except (URLError, OSError) as error:
    sys.exit(f"{url}: {error}")
