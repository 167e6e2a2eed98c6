"""The targets, a module each: ``run``, ``seeds``, ``LONGEST``; ``SECONDS`` and ``MEGABYTES`` where they are special."""
