"""Support that does not depend on TIR terms: files, JSON, plug-ins, progress."""
