"""The public functions `load`, `inspect`, `plan`, `dispatch`, `compile` and `tune`."""
