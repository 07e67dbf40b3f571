"""The Textual screen. Nothing outside this package knows Textual."""
