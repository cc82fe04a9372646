"""Tests of opinfo; they mirror the source tree."""
