"""TiCDC's own options, from the sink URI and the configuration file of a changefeed."""
