"""The controller's side of `gputop.remote`: packs the agent, speaks its wire protocol, decodes its lines."""
