"""The assets: schema cache, changelogs, mirrors and closed days."""
