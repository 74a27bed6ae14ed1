"""Templates of JSON texts, and a scanner that matches many texts against a template at once."""
