"""TiCDC's own options: which ones exist, and what each of them does to the stream."""
