"""A very small double of the kubelets of all nodes: bound pods run and are ready, deleted pods are gone a moment later.

python kubelet.py URL TOKEN OFF     # nodes named in the file OFF, one a line, have a dead kubelet
"""

from __future__ import annotations

import json
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

PATCH = "application/strategic-merge-patch+json"


class Api:
    def __init__(self, url: str, token: str) -> None:
        self._url, self._token = url, token
        self._tls = ssl.create_default_context()
        self._tls.check_hostname = False
        self._tls.verify_mode = ssl.CERT_NONE  # its certificate is made when it starts

    def call(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        """The answer, or `None` where there is none: the object has changed or gone."""
        request = urllib.request.Request(
            self._url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": kind, "Authorization": f"Bearer {self._token}"},
        )
        try:
            with urllib.request.urlopen(request, context=self._tls, timeout=10) as answer:
                return json.load(answer)
        except (urllib.error.URLError, OSError):
            return None


def serve(api: Api, off: Path) -> None:
    while True:
        dead = set(off.read_text().split()) if off.exists() else set()
        for pod in (api.call("GET", "/api/v1/pods") or {}).get("items", []):
            if pod["spec"].get("nodeName") and pod["spec"]["nodeName"] not in dead:
                treat(api, pod)
        time.sleep(0.2)


def treat(api: Api, pod: dict[str, Any]) -> None:
    metadata = pod["metadata"]
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
    if "deletionTimestamp" in metadata:
        api.call("DELETE", path, {"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}})
    elif pod["status"].get("phase") == "Pending":
        ready = {"type": "Ready", "status": "True"}
        api.call("PATCH", f"{path}/status", {"status": {"phase": "Running", "conditions": [ready]}}, PATCH)


if __name__ == "__main__":
    serve(Api(sys.argv[1], sys.argv[2]), Path(sys.argv[3]))
