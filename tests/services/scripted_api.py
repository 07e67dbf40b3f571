"""A Kubernetes API that is played, not real: just enough of it for kubectl get, cordon, annotate and drain, with
policy/v1 (Kubernetes 1.22 and later). Every eviction that is asked for is kept."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

RESOURCES: dict[str, list[dict[str, Any]]] = {
    "v1": [
        {"name": "nodes", "kind": "Node", "namespaced": False},
        {"name": "pods", "kind": "Pod", "namespaced": True},
        {"name": "pods/eviction", "kind": "Eviction", "namespaced": True, "group": "policy", "version": "v1"},
        {"name": "replicationcontrollers", "kind": "ReplicationController", "namespaced": True},
    ],
    "policy/v1": [{"name": "poddisruptionbudgets", "kind": "PodDisruptionBudget", "namespaced": True}],
    "apps/v1": [
        {"name": "daemonsets", "kind": "DaemonSet", "namespaced": True},
        {"name": "replicasets", "kind": "ReplicaSet", "namespaced": True},
        {"name": "statefulsets", "kind": "StatefulSet", "namespaced": True},
    ],
    "batch/v1": [{"name": "jobs", "kind": "Job", "namespaced": True}],
}
VERBS = ["get", "list", "create", "patch", "delete"]


class ScriptedApi:
    """One node `gpu01` with pods of a ReplicaSet in the namespace `ml`. `refusals`: per pod, the answers (status code,
    message) that its evictions get, one after the other, before one is accepted."""

    def __init__(self, *pods: str) -> None:
        self.node: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "gpu01", "labels": {}, "annotations": {}},
            "spec": {},
            "status": {
                "conditions": [{"type": "Ready", "status": "True"}],
                "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            },
        }
        self.pods = {name: a_pod(name) for name in pods}
        self.budgets: list[dict[str, Any]] = []
        self.refusals: dict[str, list[tuple[int, str]]] = defaultdict(list)
        self.evictions: list[dict[str, Any]] = []
        api = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                """Silent."""

            def answer(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(size)) if size else None
                status, value = api.answer(self.command, self.path.partition("?")[0], body)
                data = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PATCH = answer

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def write_kubeconfig(self, path: Path) -> None:
        server = f"http://127.0.0.1:{self._server.server_address[1]}"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "played", "cluster": {"server": server}}],
            "users": [{"name": "admin", "user": {}}],
            "contexts": [{"name": "played", "context": {"cluster": "played", "user": "admin"}}],
        }
        path.write_text(json.dumps(config))

    def answer(self, method: str, path: str, body: Any) -> tuple[int, dict[str, Any]]:
        parts = path.strip("/").split("/")
        if method == "POST" and parts[-1] == "eviction":
            return self._evict(parts[-2], body)
        if method == "PATCH" and path == "/api/v1/nodes/gpu01":
            for key in ("spec", "metadata"):
                merge(self.node[key], body.get(key) or {})
            return 200, self.node
        return self._get(path, parts)

    def _get(self, path: str, parts: list[str]) -> tuple[int, dict[str, Any]]:
        match parts:
            case ["version"]:
                return 200, {"major": "1", "minor": "31", "gitVersion": "v1.31.0"}
            case ["api"]:
                return 200, {"kind": "APIVersions", "versions": ["v1"]}
            case ["apis"]:
                return 200, {
                    "kind": "APIGroupList",
                    "apiVersion": "v1",
                    "groups": [a_group(v) for v in RESOURCES if "/" in v],
                }
            case ["api", "v1"]:
                return 200, resource_list("v1")
            case ["apis", group, version] if f"{group}/{version}" in RESOURCES:
                return 200, resource_list(f"{group}/{version}")
            case ["api", "v1", "nodes"]:
                return 200, a_list("NodeList", [self.node])
            case ["api", "v1", "nodes", "gpu01"]:
                return 200, self.node
            case ["api", "v1", "pods"]:
                return 200, a_list("PodList", list(self.pods.values()))
            case ["api", "v1", "namespaces", "ml", "pods", name] if name in self.pods:
                return 200, self.pods[name]
            case ["apis", "policy", "v1", "poddisruptionbudgets"]:
                return 200, a_list("PodDisruptionBudgetList", self.budgets, "policy/v1")
            case ["apis", "apps", "v1", "replicasets"]:
                owner = {"metadata": {"name": "train", "namespace": "ml", "uid": "rs-1"}}
                return 200, a_list("ReplicaSetList", [owner], "apps/v1")
            case ["apis", _, _, _] | ["api", "v1", _]:
                return 200, a_list("List", [])
        return failure(404, "NotFound", f"{path} not found")

    def _evict(self, name: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self.evictions.append({"pod": name, **body})
        dry = bool((body.get("deleteOptions") or {}).get("dryRun"))
        if self.refusals[name]:
            status, message = self.refusals[name][0] if dry else self.refusals[name].pop(0)
            return failure(status, "TooManyRequests" if status == 429 else "InternalError", message)
        if not dry:
            self.pods.pop(name, None)
        return 201, {"kind": "Status", "apiVersion": "v1", "status": "Success"}


def a_pod(name: str) -> dict[str, Any]:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "train", "uid": "rs-1", "controller": True}
    metadata = {"name": name, "namespace": "ml", "uid": f"u-{name}", "labels": {"app": "train"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "ownerReferences": [owner]},
        "spec": {"nodeName": "gpu01", "containers": [{"name": "main", "image": "train:1"}]},
        "status": {"phase": "Running"},
    }


def a_budget(name: str, allowed: int) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "ml"},
        "spec": {"selector": {}},
        "status": {"disruptionsAllowed": allowed, "currentHealthy": 2, "desiredHealthy": 2 - allowed},
    }


def a_list(kind: str, items: list[dict[str, Any]], version: str = "v1") -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"resourceVersion": "1"}, "items": items}


def a_group(version: str) -> dict[str, Any]:
    entry = {"groupVersion": version, "version": version.partition("/")[2]}
    return {"name": version.partition("/")[0], "versions": [entry], "preferredVersion": entry}


def resource_list(version: str) -> dict[str, Any]:
    resources = [{"singularName": "", "verbs": VERBS, **resource} for resource in RESOURCES[version]]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources}


def failure(code: int, reason: str, message: str) -> tuple[int, dict[str, Any]]:
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}
    return code, {**status, "reason": reason, "message": message}


def merge(old: dict[str, Any], new: dict[str, Any]) -> None:
    """A JSON merge patch; strategic ones of kubectl are the same for what is patched here."""
    for key, value in new.items():
        if value is None:
            old.pop(key, None)
        elif isinstance(value, dict) and isinstance(old.get(key), dict):
            merge(old[key], value)
        else:
            old[key] = value
