"""Hook ``ramdisk-error``: an inspection that failed in the ramdisk has failed.

Source: specification inspection.md section 4.
"""

from __future__ import annotations

from ironic_rs.domain import errors
from ironic_rs.inspection.hooks.base import Data, Hook, InspectionTask


class RamdiskError(Hook):
    """Looks at plugin_data ``error``."""

    def preprocess(self, task: InspectionTask, inventory: Data, plugin_data: Data) -> None:
        reason = plugin_data.get("error")
        if reason:
            raise errors.HardwareInspectionFailure(error=f"the ramdisk reported: {reason}")

    def __call__(self, task: InspectionTask, inventory: Data, plugin_data: Data) -> None:
        """Everything is done in preprocessing."""
