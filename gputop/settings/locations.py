"""Where gputop's files live. Nothing else knows."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import PlatformDirs

import gputop

_DIRS = PlatformDirs("gputop", appauthor=False)

SYSTEM_INVENTORY = Path("/etc/gputop/inventory.yaml")

SHARED_LOCKS = Path("/run/gputop/locks")
"""Locks that all users of this machine see, where somebody made the folder: `install -d -m 1777 /run/gputop/locks`."""

_PACKAGE = Path(gputop.__file__).parent


def example_inventory() -> Path:
    """The example that comes with gputop: in the package of a wheel, else in the checkout."""
    packed = _PACKAGE / "_inventory.example.yaml"
    return packed if packed.is_file() else _PACKAGE.parent / "inventory.example.yaml"


def config_folder() -> Path:
    """The user's own files: inventory, settings, themes, known_hosts."""
    return _DIRS.user_config_path


def state_folder() -> Path:
    """Logs and what gputop remembers."""
    return _DIRS.user_state_path


def settings_file() -> Path:
    return config_folder() / "settings.yaml"


def xid_file() -> Path:
    """What the user changes of the catalog of Xids."""
    return config_folder() / "xid.yaml"


def themes_folder() -> Path:
    return config_folder() / "themes"


def known_hosts_file() -> Path:
    """gputop's own known_hosts, written by `host_keys: accept-new` and `ask`."""
    return config_folder() / "known_hosts"


def inventory_places() -> tuple[Path, ...]:
    """Where an inventory is looked for when none is named, the first that exists counts."""
    return (Path("inventory.yaml"), config_folder() / "inventory.yaml", SYSTEM_INVENTORY)


def named_inventories() -> tuple[Path, ...]:
    """The files that `$GPUTOP_INVENTORY` names, separated by `:`; `()` when it is empty or not set."""
    text = os.environ.get("GPUTOP_INVENTORY", "")
    return tuple(Path(os.path.expanduser(part)) for part in text.split(os.pathsep) if part)
