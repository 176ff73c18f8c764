"""Answer generators behind one interface, and their cache."""
