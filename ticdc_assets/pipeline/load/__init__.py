"""The initial load: a dump becomes rows of changelogs and mirrors, before the first run of the stream."""
