"""Exports of recorded runs: OpenTelemetry, OpenInference, Chrome, Markdown."""
