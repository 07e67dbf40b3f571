"""What switches hosts on and off: each implements `ports.PowerProvider` and some of its capabilities."""
