"""The plan of an act on marked rows that are not all in sight."""

from __future__ import annotations

from gputop.domain.action import ActionRequest
from gputop.tui.dialogs.plan import PlanDialog


class MarkedDialog(PlanDialog):
    """Its title says that the filter hides some of the rows."""

    def __init__(self, request: ActionRequest, hidden: int) -> None:
        super().__init__(request)
        self._hidden = hidden

    def show_title(self, title: str, note: str = "") -> None:
        words = f"{self._hidden} marked {'row' if self._hidden == 1 else 'rows'} hidden by the filter"
        super().show_title(title, f"{words}; {note}" if note else words)
