"""All that the check needs in one file, for a machine that has neither gputop nor a network."""

import os
import shutil
import tempfile
import zipapp


def write(here: str, target: str) -> None:
    """The check, the agent and nvidia-ml-py, as an archive that Python runs."""
    import pynvml

    with tempfile.TemporaryDirectory() as folder:
        for name in os.listdir(here):
            if name.endswith(".py"):
                shutil.copy(os.path.join(here, name), folder)
        remote = os.path.join(folder, "gputop", "remote")
        os.makedirs(remote)
        source = os.path.join(os.path.dirname(os.path.dirname(here)), "gputop")
        shutil.copy(os.path.join(source, "__init__.py"), os.path.join(folder, "gputop"))
        for name in os.listdir(os.path.join(source, "remote")):
            if name.endswith(".py"):
                shutil.copy(os.path.join(source, "remote", name), remote)
        shutil.copy(pynvml.__file__, folder)
        zipapp.create_archive(folder, target, interpreter="/usr/bin/env python3")
