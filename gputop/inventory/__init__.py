"""The inventory file: schema, loading, expansion to `HostSpec`s."""
