"""The load generator behind `fleetfoot bench`: sends on time, times from the scheduled send, compares in pairs."""
