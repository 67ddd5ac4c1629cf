"""How long a cell took, by the times that JupyterLab recorded with it."""

from __future__ import annotations

from typing import Any

import pytest

from cumulus_jupyter.tools.notebook_run import recorded_seconds

_BEGUN = "2026-12-01T11:00:00.500000Z"


@pytest.mark.parametrize(
    ("metadata", "seconds"),
    [
        ({"execution": {"iopub.execute_input": _BEGUN, "shell.execute_reply": "2026-12-01T11:00:41.5Z"}}, 41.0),
        ({"execution": {"iopub.execute_input": _BEGUN}}, 0.0),
        ({"execution": {"iopub.execute_input": _BEGUN, "shell.execute_reply": "yesterday"}}, 0.0),
        ({"execution": {"iopub.execute_input": _BEGUN, "shell.execute_reply": "2026-12-01T11:00:41"}}, 0.0),
        ({"execution": {"iopub.execute_input": _BEGUN, "shell.execute_reply": "2026-12-01T10:00:00Z"}}, 0.0),
        ({"execution": []}, 0.0),
        ({}, 0.0),
    ],
)
def test_recorded_times(metadata: dict[str, Any], seconds: float) -> None:
    assert recorded_seconds(metadata) == seconds
