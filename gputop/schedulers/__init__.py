"""What gives hosts their work: each implements `ports.Scheduler` and some of its capabilities."""
