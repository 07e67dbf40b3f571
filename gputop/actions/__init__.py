"""Acts: plans, guards, the one executor, and what it writes down."""
