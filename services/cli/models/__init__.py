"""Commands about model artefacts."""
