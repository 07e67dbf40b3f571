"""Ways to run a program on a host: SSH and a local subprocess."""
