"""TiCDC Open Protocol."""
