"""Tables, reports, comparisons and gates: all of it from saved records."""
