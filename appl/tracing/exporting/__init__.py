"""Recorded runs in the forms of others: OpenTelemetry, OpenInference, Chrome, Markdown."""
