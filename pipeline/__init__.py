"""The words that flow through fleetfoot, the ports that stages fill, and the story of one request."""
