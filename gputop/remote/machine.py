"""The agent's only door to the operating system."""

import os
import pwd
import resource
import signal
import subprocess
import sys
import threading
import time
from typing import Any, Callable, Iterator, List, Optional, Tuple

_PR_SET_PDEATHSIG = 1
_CLOCK_BOOTTIME = 7
"""Python has no name for it before 3.7."""
_RECORD_BYTES = 65536


class Machine:
    """This server. `root` is put before every path that is read, so that a folder with captured files can stand in."""

    def __init__(self, root: str = "") -> None:
        self.root = root
        self.clock_ticks = os.sysconf("SC_CLK_TCK")
        self.page_bytes = os.sysconf("SC_PAGE_SIZE")
        self._children: List[Child] = []
        self._die_with_parent = _death_signal()

    # time

    def wall(self) -> float:
        """Seconds since the epoch, UTC."""
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def boot_seconds(self) -> float:
        """Seconds since the server started, sleep included: the clock by which processes start."""
        return time.clock_gettime(_CLOCK_BOOTTIME)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    # files

    def text(self, path: str) -> Optional[str]:
        """The file as text, whatever its bytes; `None` when it cannot be read."""
        try:
            with open(self.root + path, "rb") as file:
                return file.read().decode("utf-8", "replace")
        except OSError:
            return None

    def is_missing(self, path: str) -> bool:
        """Whether there is no such file; `False` where that cannot be told."""
        try:
            os.stat(self.root + path)
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError:
            return False
        return False

    def records(self, path: str) -> Iterator[str]:
        """What a device file that gives one record at a time has, and then what comes, as long as it comes. Records
        that were overwritten before they were read are missing. Raises `OSError` when it may not be read."""
        file = os.open(self.root + path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            while True:
                try:
                    record = os.read(file, _RECORD_BYTES)
                except BrokenPipeError:
                    continue  # what comes next was overwritten: the following read goes on after the gap
                if not record:
                    return
                yield record.decode("utf-8", "replace")
        finally:
            os.close(file)

    def names(self, path: str) -> List[str]:
        """Names in a folder, sorted; none when it cannot be read."""
        try:
            return sorted(os.listdir(self.root + path))
        except OSError:
            return []

    def link(self, path: str) -> Optional[str]:
        """What a symbolic link says; `None` when it cannot be read."""
        try:
            return os.readlink(self.root + path)
        except OSError:
            return None

    def may_open(self, path: str) -> bool:
        """Whether opening the file is allowed; a device that is broken counts as allowed."""
        try:
            os.close(os.open(self.root + path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
        except PermissionError:
            return False
        except OSError:
            return True
        return True

    # users and ourselves

    def user_name(self, uid: int) -> Optional[str]:
        """Asks the name services, which may be remote and slow; `None` when they do not know it."""
        try:
            return pwd.getpwuid(uid).pw_name
        except KeyError:
            return None

    def own_cpu_seconds(self) -> float:
        return time.process_time()

    def own_memory_bytes(self) -> Optional[int]:
        """Resident memory."""
        text = self.text("/proc/self/statm") if not self.root else None
        if text is None:
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return int(text.split()[1]) * self.page_bytes

    # threads and programs

    def thread(self, function: Callable[[], None]) -> None:
        """Run `function` beside everything else. It never keeps the agent alive."""
        threading.Thread(target=function, daemon=True).start()

    def find_program(self, names: Tuple[str, ...]) -> Optional[str]:
        """The first that can be run: names are looked up in PATH, paths are taken as they are."""
        for name in names:
            folders = [""] if "/" in name else os.environ.get("PATH", "").split(os.pathsep)
            for folder in folders:
                path = os.path.join(folder, name)
                if "/" in path and os.path.isfile(path) and os.access(path, os.X_OK):
                    return path
        return None

    def start(self, command: List[str]) -> "Child":
        """Start a program; it is killed when the agent ends, in whatever way. Call from a thread that lives as long as
        the program may: the kernel takes the end of that thread for the end of the agent. Raises `OSError`."""
        child = Child(
            subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=dict(os.environ, LC_ALL="C"),
                start_new_session=True,
                preexec_fn=self._die_with_parent,
            )
        )
        self._children = [other for other in self._children if other.running] + [child]
        return child

    def run(self, command: List[str], seconds: float) -> Tuple[Optional[int], str]:
        """Exit status and output of a program. The status is `None` when it did not end in time."""
        try:
            child = self.start(command)
        except OSError as error:
            return 127, str(error)
        timer = threading.Timer(seconds, child.kill)
        timer.daemon = True
        timer.start()
        output = "".join(child.lines())
        status = child.wait()
        timer.cancel()
        return (None if child.killed else status), output

    def exit(self, status: int) -> None:
        """End now, with every program that was started, whatever other threads are doing."""
        for child in self._children:
            child.kill()
        os._exit(status)

    def load_library(self, path: str) -> Any:
        """A shared library. Raises `OSError` (not there, not loadable) or `ImportError` (a Python without ctypes)."""
        import ctypes

        return ctypes.CDLL(path)

    # the conversation

    def arm(self, seconds: int) -> None:
        """End by SIGALRM unless armed again within `seconds`: nothing in this process can prevent it."""
        signal.alarm(seconds)

    def control_line(self) -> bytes:
        """The next line of the controller; `b""` at the end of the input."""
        return sys.stdin.buffer.readline()

    def say(self, data: bytes) -> None:
        """Write to the controller. Raises `OSError` when it is gone; blocks while it does not read."""
        while data:
            data = data[os.write(1, data) :]


class Child:
    """A program that was started."""

    def __init__(self, popen: "subprocess.Popen[bytes]") -> None:
        self._popen = popen
        self.killed = False

    @property
    def running(self) -> bool:
        return self._popen.poll() is None

    def lines(self) -> Iterator[str]:
        """Output and errors, line by line, to the end."""
        assert self._popen.stdout is not None
        for line in self._popen.stdout:
            yield line.decode("utf-8", "replace")

    def wait(self) -> int:
        return self._popen.wait()

    def kill(self) -> None:
        """Kill it and everything it started."""
        self.killed = True
        try:
            os.killpg(self._popen.pid, signal.SIGKILL)
        except OSError:
            pass  # it has ended


def _death_signal() -> Optional[Callable[[], None]]:
    """What a new child calls to be killed when we end; `None` where that cannot be had."""
    try:
        import ctypes

        prctl = ctypes.CDLL(None).prctl
    except (ImportError, OSError, AttributeError):
        return None
    parent = os.getpid()

    def die_with_parent() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return die_with_parent
