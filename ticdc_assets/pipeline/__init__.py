"""One run of a changefeed: plan what is pending, decode it in the workers, publish it table by table."""
