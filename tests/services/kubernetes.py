"""A real Kubernetes API server on loopback: etcd, kube-apiserver, the disruption controller, a double of the kubelets.

The programs are looked for in the folder $KUBEBUILDER_ASSETS (the convention of the Kubernetes test tools) and on PATH.
No scheduler runs: pods are bound by whoever makes them. Accounts: `admin` (everything) and `viewer` (nothing, until a
test gives it some right); contexts of the kubeconfig have the same names.
"""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.services.slurm import free_ports

START_SECONDS = 60.0
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl", "ssh-keygen")
TOKEN = "gputop-admin-token"


def find(program: str) -> str | None:
    """Path of one of `PROGRAMS`."""
    assets = os.environ.get("KUBEBUILDER_ASSETS", "")
    return (
        shutil.which(program, path=assets) if assets and shutil.which(program, path=assets) else shutil.which(program)
    )


class KubernetesCluster:
    """`nodes` nodes gpu01, gpu02, … at 127.0.1.1, 127.0.1.2, …, each an instance i-…1, i-…2, …"""

    def __init__(self, folder: Path, nodes: int) -> None:
        self.folder = folder
        self.names = [f"gpu{number:02d}" for number in range(1, nodes + 1)]
        self.kubeconfig = folder / "kubeconfig"
        self.dead_kubelets = folder / "kubelets-off"
        self.environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig), "NO_PROXY": "127.0.0.1"}
        self.url = ""
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        client, peer, api, controllers = free_ports(4)
        url = self.url = f"https://127.0.0.1:{api}"
        (self.folder / "log").mkdir(parents=True)
        self._credentials(url)
        store = f"http://127.0.0.1:{client}"
        etcd = ["--name=t", f"--data-dir={self.folder}/etcd", f"--listen-client-urls={store}", "--unsafe-no-fsync"]
        etcd += [f"--advertise-client-urls={store}", f"--listen-peer-urls=http://127.0.0.1:{peer}"]
        etcd += [f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}"]
        etcd += [f"--initial-cluster=t=http://127.0.0.1:{peer}"]
        self._spawn("etcd", etcd)
        self._spawn(
            "kube-apiserver",
            [
                f"--etcd-servers={store}",
                "--bind-address=127.0.0.1",
                "--advertise-address=127.0.0.1",
                f"--secure-port={api}",
                f"--cert-dir={self.folder}/certificates",
                f"--token-auth-file={self.folder}/tokens.csv",
                "--authorization-mode=RBAC",
                "--service-cluster-ip-range=10.0.0.0/24",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={self.folder}/sa.key",
                f"--service-account-signing-key-file={self.folder}/sa.key",
                "--disable-admission-plugins=ServiceAccount",
                "--endpoint-reconciler-type=none",
            ],
        )
        self._until(lambda: self._answers(f"{url}/readyz"), "kube-apiserver")
        self._spawn(
            "kube-controller-manager",
            [
                f"--kubeconfig={self.folder}/controllers.conf",
                "--bind-address=127.0.0.1",
                f"--secure-port={controllers}",
                "--port=0",
                "--leader-elect=false",
                "--controllers=disruption",
                f"--cert-dir={self.folder}/certificates-of-controllers",
            ],
        )
        kubelet = [str(Path(__file__).with_name("kubelet.py")), url, TOKEN, str(self.dead_kubelets)]
        self._spawn("kubelet", kubelet, program=sys.executable)
        self.create(*(a_node(name, number) for number, name in enumerate(self.names, start=1)))

    def stop(self) -> None:
        for process in reversed(self._processes.values()):
            process.terminate()
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()

    def kubectl(self, *words: str, data: str = "", context: str = "admin", check: bool = True) -> str:
        """What kubectl prints."""
        done = subprocess.run(
            [str(find("kubectl")), "--context", context, *words],
            env=self.environment,
            input=data,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if check and done.returncode != 0:
            raise RuntimeError(f"kubectl {' '.join(words)}: {done.stderr}")
        return done.stdout

    def create(self, *objects: dict[str, Any]) -> list[dict[str, Any]]:
        """The objects as the server made them."""
        data = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        text = self.kubectl("create", "-f", "-", "-o", "json", data=data).strip()
        made: list[dict[str, Any]] = []
        while text:  # one document after the other
            one, end = json.JSONDecoder().raw_decode(text)
            made += one["items"] if one["kind"] == "List" else [one]
            text = text[end:].strip()
        return made

    def get(self, *words: str) -> Any:
        return json.loads(self.kubectl("get", *words, "-o", "json"))

    def wait_for_pods(self, *names: str) -> None:
        """Until `namespace/name` runs and is ready."""
        for name in names:
            namespace, _, pod = name.partition("/")
            words = ("get", "pod", pod, "-n", namespace, "-o", "jsonpath={.status.phase}")
            self._until(lambda words=words: self.kubectl(*words) == "Running", name)  # type: ignore[misc]

    def wait_for_budget(self, namespace: str, name: str, allowed: int) -> None:
        words = ("get", "pdb", name, "-n", namespace, "-o", "jsonpath={.status.disruptionsAllowed}")
        self._until(lambda: self.kubectl(*words) == str(allowed), f"PDB {name}")

    def set_ready(self, node: str, status: str) -> None:
        """What a node controller writes: `True`, `False` or `Unknown`."""
        condition = {"type": "Ready", "status": status, "message": "Kubelet stopped posting node status."}
        patch = json.dumps([{"op": "replace", "path": "/status/conditions", "value": [condition]}])
        self._api("PATCH", f"/api/v1/nodes/{node}/status", patch, "application/json-patch+json")

    def _api(self, method: str, path: str, body: str, kind: str) -> None:
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=body.encode(),
            headers={"Content-Type": kind, "Authorization": f"Bearer {TOKEN}"},
        )
        urllib.request.urlopen(request, context=_trusting(), timeout=10).close()

    def _credentials(self, url: str) -> None:
        argv = [str(find("ssh-keygen")), "-q", "-t", "rsa", "-b", "2048", "-m", "PEM", "-N", ""]
        subprocess.run([*argv, "-f", str(self.folder / "sa.key")], check=True)
        (self.folder / "tokens.csv").write_text(f'{TOKEN},admin,1,"system:masters"\nviewer-token,viewer,2,"viewers"\n')
        accounts = {"admin": TOKEN, "viewer": "viewer-token", "stranger": "no-such-token"}
        clusters = {"test": url, "gone": "https://127.0.0.1:1"}
        plugin = {"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never"}
        contexts = [(user, "test", user) for user in accounts]
        contexts += [("gone", "gone", "admin"), ("untrusted", "untrusted", "admin"), ("no-plugin", "test", "no-plugin")]
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": name, "cluster": {"server": server, "insecure-skip-tls-verify": True}}
                for name, server in clusters.items()
            ]
            + [{"name": "untrusted", "cluster": {"server": url}}],
            "users": [{"name": name, "user": {"token": token}} for name, token in accounts.items()]
            + [{"name": "no-plugin", "user": {"exec": {**plugin, "command": "gputop-no-such-plugin"}}}],
            "contexts": [
                {"name": name, "context": {"cluster": cluster, "user": user}} for name, cluster, user in contexts
            ],
            "current-context": "gone",  # whoever forgets to name a context reaches nothing
        }
        self.kubeconfig.write_text(json.dumps(config))
        (self.folder / "controllers.conf").write_text(json.dumps({**config, "current-context": "admin"}))

    def _spawn(self, name: str, words: Sequence[str], program: str | None = None) -> None:
        with (self.folder / "log" / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [program or str(find(name)), *words],
                env=self.environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + START_SECONDS
        while not condition():
            ended = [name for name, process in self._processes.items() if process.poll() is not None]
            if ended or time.monotonic() > end:
                raise RuntimeError(f"Kubernetes: waited for {what}; ended: {ended}; {self._logs()}")
            time.sleep(0.1)

    def _answers(self, url: str) -> bool:
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {TOKEN}"})
        try:
            with urllib.request.urlopen(request, context=_trusting(), timeout=2) as answer:
                return bool(answer.read() == b"ok")
        except (urllib.error.URLError, OSError):
            return False

    def _logs(self) -> str:
        return "".join(
            f"\n--- {path.name}\n{path.read_text(errors='replace')[-1500:]}"
            for path in sorted((self.folder / "log").iterdir())
        )


def _trusting() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def a_node(name: str, number: int) -> dict[str, Any]:
    resources = {"cpu": "96", "memory": "1024Gi", "pods": "110", "nvidia.com/gpu": "8"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": f"{name}-host"}},
        "spec": {"providerID": f"aws:///us-east-1a/i-{number:017x}"},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ok"}],
            "addresses": [{"type": "InternalIP", "address": f"127.0.1.{number}"}],
        },
    }


def a_pod(name: str, node: str, namespace: str, owner: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """A pod bound to `node`. `owner`: an object that the server made. `fields`: `labels`, `finalizers`, and those of
    its spec."""
    metadata: dict[str, Any] = {"name": name, "namespace": namespace}
    metadata |= {key: fields.pop(key) for key in ("labels", "finalizers") if key in fields}
    if owner is not None:
        reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True}
        reference |= {key: owner["metadata"][key] for key in ("name", "uid")}
        metadata["ownerReferences"] = [reference]
    limits = {"limits": {"nvidia.com/gpu": "4"}}
    spec = {
        "nodeName": node,
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": "train:1", "resources": limits}],
        **fields,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def a_controller(kind: str, name: str, namespace: str) -> dict[str, Any]:
    """A ReplicaSet or DaemonSet that nobody runs: pods may belong to it."""
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "main", "image": "train:1"}]},
    }
    spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}


def a_budget(name: str, namespace: str, keep: int, **labels: str) -> dict[str, Any]:
    spec = {"minAvailable": keep, "selector": {"matchLabels": labels}}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}
