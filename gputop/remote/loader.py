"""Runs the agent from memory: the head of the payload, followed there by one call of `run`."""

import importlib.abc
import importlib.machinery
import linecache
import sys
from types import ModuleType
from typing import Any, Dict, Optional


class MemoryImporter(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports modules from a dict of sources; tracebacks show their real lines."""

    def __init__(self, sources: Dict[str, str]) -> None:
        self.sources = sources

    def find_spec(
        self, fullname: str, path: Any, target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        if fullname not in self.sources:
            return None
        package = any(name.startswith(fullname + ".") for name in self.sources)
        return importlib.machinery.ModuleSpec(fullname, self, origin="<gputop:%s>" % fullname, is_package=package)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """The ordinary kind of module."""

    def exec_module(self, module: ModuleType) -> None:
        source = self.sources[module.__name__]
        file_name = "<gputop:%s>" % module.__name__
        linecache.cache[file_name] = (len(source), None, source.splitlines(True), file_name)
        exec(compile(source, file_name, "exec"), module.__dict__)


def run(sources: Dict[str, str], token: str) -> None:
    """Start the agent out of `sources`, module name to source text."""
    sys.meta_path.insert(0, MemoryImporter(sources))
    from gputop.remote.agent import main

    main(token)
